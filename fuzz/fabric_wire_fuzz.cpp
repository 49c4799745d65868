// Any bytes as what a peer over libfabric may send. The first byte chooses: a packet (with the
// hello in it, where it holds one), completion data, or a descriptor. What is accepted must be of a
// size that has a place and, encoded again, be the same.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/binary.h"
#include "transport/fabric/wire.h"

namespace {

using namespace dlobd::transport;

void require(bool condition) {
  if (!condition) std::abort();
}

void read_hello(std::span<const std::byte> bytes) {
  const auto hello = fabric::parse_hello(bytes);
  if (!hello) return;
  const auto again = fabric::encode(*hello);
  require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
}

void read_packet(std::span<const std::byte> bytes) {
  const auto header = fabric::parse_header(bytes);
  if (!header) return;
  std::array<std::byte, fabric::kHeaderBytes> again;
  fabric::encode(*header, again);
  require(std::equal(again.begin(), again.end(), bytes.begin()));
  require(header->notification.kind < kMaxKinds);
  const auto payload = bytes.subspan(fabric::kHeaderBytes);
  using fabric::PacketType;
  if (header->type == PacketType::message) {
    require(header->bytes <= kMaxMessageBytes);
    require(header->part * fabric::kPacketPayload + payload.size() <= header->bytes);
  } else if (header->type == PacketType::envelope) {
    require(payload.empty());
  } else if (header->type == PacketType::hello || header->type == PacketType::answer) {
    read_hello(payload);
  }
}

void read_mark(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(std::uint64_t)) return;
  const auto data = dlobd::base::load<std::uint64_t>(bytes.data());
  for (const auto width : {fabric::MarkWidth::narrow, fabric::MarkWidth::wide}) {
    const std::uint64_t carried = width == fabric::MarkWidth::wide ? data : data & 0xffffffffU;
    const fabric::Mark mark = fabric::decode_mark(carried, width);
    require(mark.source >= 0 && mark.source < fabric::kMaxRanks);
    require(mark.notification.kind < kMaxKinds);
    require(fabric::encode(mark, width) == carried);
    require(fabric::ahead(mark, mark.sequence, width) == 0);
  }
}

void read_description(std::span<const std::byte> bytes) {
  const auto description = fabric::parse_description(bytes);
  if (!description) return;
  const auto again = fabric::parse_description(fabric::encode(*description));
  require(again.has_value() && *again == *description);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto rest = std::as_bytes(std::span(data, size)).subspan(1);
  switch (data[0] % 3) {
    case 0: read_packet(rest); break;
    case 1: read_mark(rest); break;
    default: read_description(rest); break;
  }
  return 0;
}
