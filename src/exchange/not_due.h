// What becomes of a message that a peer should not have sent, or not now: corrupt_data, which names
// the peer, what the message is (`what`: "a weight slice"), its number and size.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "transport/endpoint.h"

namespace dlobd::exchange {

base::Failure not_due(const transport::Arrival& arrival, std::string_view what);
// Where one message alone was due, of this number and size.
base::Failure not_due(const transport::Arrival& arrival, std::string_view what, std::uint32_t index,
                      std::uint64_t bytes);

}  // namespace dlobd::exchange
