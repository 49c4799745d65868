#include "exchange/not_due.h"

#include <fmt/format.h>

namespace dlobd::exchange {

using base::ErrorKind;

base::Failure not_due(const transport::Arrival& arrival, std::string_view what) {
  return base::fail(ErrorKind::corrupt_data,
                    fmt::format("a peer's message is not one that is due: {} from rank {}, number "
                                "{}, {} bytes",
                                what, arrival.source, arrival.index, arrival.bytes),
                    arrival.source);
}

base::Failure not_due(const transport::Arrival& arrival, std::string_view what, std::uint32_t index,
                      std::uint64_t bytes) {
  return base::fail(ErrorKind::corrupt_data,
                    fmt::format("a peer's message is not the one that is due: {} from rank {}, "
                                "number {} for {}, {} bytes for {}",
                                what, arrival.source, arrival.index, index, arrival.bytes, bytes),
                    arrival.source);
}

}  // namespace dlobd::exchange
