// Any bytes as a control frame: decode() must answer with a message, whose bytes are then the same
// again, or with an error.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "cluster/messages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto frame = std::as_bytes(std::span(data, size));
  const auto message = dlobd::cluster::decode(frame);
  if (!message) return 0;
  const auto again = dlobd::cluster::encode(*message);
  if (!std::equal(again.begin(), again.end(), frame.begin(), frame.end())) std::abort();
  return 0;
}
