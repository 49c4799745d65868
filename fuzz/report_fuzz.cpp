// Any bytes as what a rank reports, which comes over the network where ranks are started by hand:
// decode() must answer with a report, which stays the same when encoded and decoded again, or with
// an error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "metrics/report.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dlobd::metrics;
  const auto report = decode(std::as_bytes(std::span(data, size)));
  if (!report) return 0;
  // Not the bytes that came: of an environment, any JSON that says the same is one.
  const Blob blob = encode(*report);
  const auto again = decode(blob);
  if (!again || again->index() != report->index() || encode(*again) != blob) std::abort();
  return 0;
}
