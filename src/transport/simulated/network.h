// A network that is computed: all ranks in one thread, on one loop, in virtual time or in real
// time.
//
// endpoint(rank) gives each rank its transport::Endpoint. Messages take the time that the LinkModel
// says. The sender may change its bytes when write() returns (when they have left its link); they
// land in the receiver's region only when they arrive. A seed gives the same times, to the
// nanosecond.
//
// Failure: strike(), strike_at() and at_message() make faults; links then break as
// simulated/faults.h says, and a message that was under way may leave a part of its bytes in the
// region, but no notification. The fault of a killed rank is that its own endpoint fails too.
//
// Threads: belongs to the loop's thread. The network may go before its endpoints, and both before
// the loop.
#pragma once

#include <cstdint>
#include <memory>

#include "base/loop.h"
#include "transport/endpoint.h"
#include "transport/simulated/faults.h"
#include "transport/simulated/link_model.h"

namespace dlobd::transport::simulated {

// counted: the bytes of write() are timed and counted but not moved (large scale). The bytes of
// send() are always moved, for programs act on what they say.
enum class Payload { moved, counted };

class Fabric;

class Network {
 public:
  Network(base::Loop& loop, const LinkModel& model, int world_size, std::uint64_t seed,
          Payload payload = Payload::moved);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // Once for each rank.
  std::unique_ptr<Endpoint> endpoint(int rank);

  void strike(const Fault& fault);
  void strike_at(base::Time when, const Fault& fault);
  // Strikes in the middle of the arrival of the n-th message (from 1) that `rank` sends, whatever
  // its kind. Where the fault is on that message's way, the message is lost half landed.
  void at_message(int rank, std::uint64_t n, const Fault& fault);
  // To ask, and to follow.
  Faults& faults();

 private:
  int world_size_;
  std::shared_ptr<Fabric> fabric_;  // also of the endpoints and of the pending timers
};

}  // namespace dlobd::transport::simulated
