// The arrivals of one kind, asked for by sender. The endpoint gives them in the order in which they
// came, whoever sent them; a protocol waits for one rank's message at a time, and a fast peer's may
// be there before a slow one's. Each sender's messages keep their order, so what came early waits
// in a queue of its sender. Every message is checked to be the one expected: a wrong number or size
// is corrupt_data, with rank. Belongs to the loop's thread; one waiting coroutine at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "transport/endpoint.h"

namespace dlobd::exchange {

class Inbox {
 public:
  // `what` names the message in errors: "a weight slice".
  Inbox(transport::Endpoint& endpoint, transport::Kind kind, std::string what);

  // Returns when rank `peer`'s next message is in place.
  base::Task<base::Result<void>> from(int peer, std::uint32_t index, std::uint64_t bytes);

 private:
  base::Result<void> check(const transport::Arrival& arrival, std::uint32_t index,
                           std::uint64_t bytes) const;

  transport::Endpoint& endpoint_;
  transport::Kind kind_;
  std::string what_;
  std::vector<std::deque<transport::Arrival>> early_;  // by sender
};

}  // namespace dlobd::exchange
