// Any bytes as what comes from a rank's report pipe, in pieces of any sizes: the first byte says
// after how many bytes to cut. However they are cut, the same blobs come out, which are bytes of
// the stream in its order.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "cluster/report_pipe.h"

namespace {

struct Cut {
  std::vector<std::vector<std::byte>> blobs;
  bool good = true;
};

Cut cut(std::span<const std::byte> stream, std::size_t piece) {
  Cut result;
  dlobd::cluster::ReportParser parser(
      [&result](std::vector<std::byte> blob) { result.blobs.push_back(std::move(blob)); });
  while (!stream.empty()) {
    const auto next = stream.first(std::min(piece, stream.size()));
    result.good = static_cast<bool>(parser.feed(next));
    stream = stream.subspan(next.size());
  }
  return result;
}

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto stream = std::as_bytes(std::span(data, size)).subspan(1);
  const Cut whole = cut(stream, std::max<std::size_t>(1, stream.size()));
  const Cut pieces = cut(stream, std::size_t{1} + data[0]);
  require(pieces.blobs == whole.blobs && pieces.good == whole.good);
  auto rest = stream;
  for (const auto& blob : whole.blobs) {
    require(rest.size() >= 4 + blob.size());
    const auto bytes = rest.subspan(4, blob.size());
    require(std::equal(blob.begin(), blob.end(), bytes.begin()));
    rest = rest.subspan(4 + blob.size());
  }
  return 0;
}
