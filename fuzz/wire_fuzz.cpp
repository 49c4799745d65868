// Any bytes as what a TCP peer may send. The first byte chooses: a stream of frames (read as a
// connection reads it, against some regions), a greeting, or a descriptor. What is accepted must
// lie within its region and, encoded again, be the same bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "transport/descriptor.h"
#include "transport/tcp/wire.h"

namespace {

using namespace dlobd::transport;

void require(bool condition) {
  if (!condition) std::abort();
}

void read_frames(std::span<const std::byte> bytes) {
  const RegionSizes regions = {{1, 100}, {2, std::uint64_t{1} << 33}, {3, 0}};
  while (bytes.size() >= tcp::kHeaderBytes) {
    const auto head = bytes.first<tcp::kHeaderBytes>();
    const auto header = tcp::parse_header(head);
    if (!header) return;
    tcp::HeaderBytes again;
    tcp::encode(*header, again);
    require(std::equal(again.begin(), again.end(), head.begin()));
    if (!tcp::check_frame(*header, regions)) return;
    require(header->bytes <= header->total_bytes);
    if (header->type == tcp::FrameType::write) {
      const std::uint64_t size = regions.at(header->region);
      require(header->offset_bytes + header->bytes >= header->bytes);
      require(header->offset_bytes + header->bytes <= size);
    } else {
      require(header->bytes <= kMaxMessageBytes);
    }
    bytes = bytes.subspan(tcp::kHeaderBytes);
    bytes = bytes.subspan(std::min<std::uint64_t>(bytes.size(), header->bytes));
  }
}

void read_hello(std::span<const std::byte> bytes) {
  if (bytes.size() < tcp::kHelloBytes) return;
  const auto hello = tcp::parse_hello(bytes.first<tcp::kHelloBytes>());
  if (!hello) return;
  const auto again = tcp::parse_hello(tcp::encode(*hello));
  require(again.has_value() && *again == *hello);
}

void read_descriptor(std::span<const std::byte> bytes) {
  const auto descriptor = decode_descriptor(bytes);
  if (!descriptor) return;
  const auto again = decode_descriptor(encode(*descriptor));
  require(again.has_value() && *again == *descriptor);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto rest = std::as_bytes(std::span(data, size)).subspan(1);
  switch (data[0] % 3) {
    case 0: read_frames(rest); break;
    case 1: read_hello(rest); break;
    default: read_descriptor(rest); break;
  }
  return 0;
}
