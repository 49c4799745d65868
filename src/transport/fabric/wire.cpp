#include "transport/fabric/wire.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/binary.h"
#include "base/check.h"

namespace dlobd::transport::fabric {

using base::load;
using base::store;

namespace {

constexpr std::uint32_t kDescriptionMagic = 0x46424144U;
constexpr std::uint8_t kDescriptionVersion = 1;

constexpr int kSourceBits = 12;
constexpr int kNarrowSequenceBits = 20;
constexpr int kWideSequenceBits = 16;

std::uint64_t low_bits(std::uint64_t value, int bits) {
  return value & ((std::uint64_t{1} << bits) - 1);
}

base::Failure corrupt_packet(std::string what) {
  return base::fail(base::ErrorKind::corrupt_data, std::move(what));
}

}  // namespace

void encode(const Header& header, std::span<std::byte, kHeaderBytes> to) {
  std::byte* at = to.data();
  store(at, static_cast<std::uint8_t>(header.type));
  store(at + 1, static_cast<std::uint8_t>(header.traffic));
  store(at + 2, header.notification.kind);
  store(at + 3, std::uint8_t{0});
  store(at + 4, header.source);
  store(at + 6, header.credits);
  store(at + 8, header.notification.index);
  store(at + 12, header.sequence);
  store(at + 16, header.part);
  store(at + 20, header.parts);
  store(at + 24, header.key);
  store(at + 32, header.bytes);
  store(at + 40, static_cast<std::uint64_t>(header.sender_ready.count()));
}

base::Result<Header> parse_header(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes || bytes.size() > kPacketBytes) {
    return corrupt_packet(fmt::format("a packet has another size: {} bytes", bytes.size()));
  }
  const std::byte* at = bytes.data();
  const auto type = load<std::uint8_t>(at);
  const auto traffic = load<std::uint8_t>(at + 1);
  Header header;
  header.notification.kind = load<std::uint8_t>(at + 2);
  if (type < static_cast<std::uint8_t>(PacketType::hello) ||
      type > static_cast<std::uint8_t>(PacketType::gone) || traffic >= kTrafficClasses ||
      header.notification.kind >= kMaxKinds) {
    return corrupt_packet(fmt::format("a packet is of no known sort: type {}, traffic {}, kind {}",
                                      type, traffic, header.notification.kind));
  }
  header.type = static_cast<PacketType>(type);
  header.traffic = static_cast<Traffic>(traffic);
  header.source = load<std::uint16_t>(at + 4);
  header.credits = load<std::uint16_t>(at + 6);
  header.notification.index = load<std::uint32_t>(at + 8);
  header.sequence = load<std::uint32_t>(at + 12);
  header.part = load<std::uint32_t>(at + 16);
  header.parts = load<std::uint32_t>(at + 20);
  header.key = load<std::uint64_t>(at + 24);
  header.bytes = load<std::uint64_t>(at + 32);
  header.sender_ready = base::Time(static_cast<std::int64_t>(load<std::uint64_t>(at + 40)));
  if (load<std::uint8_t>(at + 3) != 0) {
    return corrupt_packet("a packet has bits set that must be zero");
  }
  const std::size_t payload = bytes.size() - kHeaderBytes;
  std::size_t due = 0;
  if (header.type == PacketType::message) {
    if (header.bytes > kMaxMessageBytes || header.parts != packets_of(header.bytes) ||
        header.part >= header.parts) {
      return corrupt_packet(fmt::format("a two-sided message has other parts: {} of {}, {} bytes",
                                        header.part, header.parts, header.bytes));
    }
    due = std::min<std::size_t>(kPacketPayload, header.bytes - header.part * kPacketPayload);
  } else if (header.type == PacketType::envelope) {
    if ((header.bytes == 0) != (header.parts == 0)) {
      return corrupt_packet(
          fmt::format("a write has other parts: {} for {} bytes", header.parts, header.bytes));
    }
  } else {
    due = header.bytes;
  }
  if (payload != due) {
    return corrupt_packet(
        fmt::format("a packet's payload has another size: {} of {} bytes", payload, due));
  }
  return header;
}

std::uint64_t encode(const Mark& mark, MarkWidth width) {
  const auto source = low_bits(static_cast<std::uint64_t>(mark.source), kSourceBits);
  if (width == MarkWidth::narrow) {
    return source << kNarrowSequenceBits | low_bits(mark.sequence, kNarrowSequenceBits);
  }
  return source << 52 | low_bits(mark.notification.kind, 4) << 48 |
         low_bits(mark.sequence, kWideSequenceBits) << 32 | mark.notification.index;
}

Mark decode_mark(std::uint64_t data, MarkWidth width) {
  Mark mark;
  if (width == MarkWidth::narrow) {
    mark.source = static_cast<int>(low_bits(data >> kNarrowSequenceBits, kSourceBits));
    mark.sequence = static_cast<std::uint32_t>(low_bits(data, kNarrowSequenceBits));
    return mark;
  }
  mark.source = static_cast<int>(data >> 52);
  mark.notification.kind = static_cast<Kind>(low_bits(data >> 48, 4));
  mark.sequence = static_cast<std::uint32_t>(low_bits(data >> 32, kWideSequenceBits));
  mark.notification.index = static_cast<std::uint32_t>(data);
  return mark;
}

std::uint32_t ahead(const Mark& mark, std::uint32_t next, MarkWidth width) {
  const int bits = width == MarkWidth::narrow ? kNarrowSequenceBits : kWideSequenceBits;
  return static_cast<std::uint32_t>(low_bits(mark.sequence - next, bits));
}

std::string_view describe(Answer answer) {
  switch (answer) {
    case Answer::asking: return "no answer";
    case Answer::welcome: return "welcome";
    case Answer::wrong_token: return "another job's token";
    case Answer::wrong_rank: return "not a rank that is expected here";
  }
  return "unknown";
}

std::vector<std::byte> encode(const Hello& hello) {
  CHECK(hello.token.size() <= kMaxTokenBytes, "token of {} bytes", hello.token.size());
  base::BinaryWriter writer;
  writer.integer(static_cast<std::uint8_t>(hello.answer));
  writer.integer(hello.peer);
  writer.integer(hello.world_size);
  writer.integer(hello.key);
  writer.text<std::uint16_t>(hello.token);
  return writer.take();
}

base::Result<Hello> parse_hello(std::span<const std::byte> bytes) {
  base::BinaryReader reader(bytes);
  const auto answer = reader.integer<std::uint8_t>();
  Hello hello;
  hello.peer = reader.integer<std::uint32_t>();
  hello.world_size = reader.integer<std::uint32_t>();
  hello.key = reader.integer<std::uint64_t>();
  hello.token = reader.text<std::uint16_t>();
  if (!reader.good() || reader.left() > 0 || hello.token.size() > kMaxTokenBytes ||
      answer > static_cast<std::uint8_t>(Answer::wrong_rank)) {
    return corrupt_packet(fmt::format("a hello is not one: {} bytes", bytes.size()));
  }
  hello.answer = static_cast<Answer>(answer);
  return hello;
}

std::vector<std::byte> encode(const Description& description) {
  base::BinaryWriter writer;
  writer.integer(kDescriptionMagic);
  writer.integer(kDescriptionVersion);
  writer.text<std::uint16_t>(description.provider);
  writer.text<std::uint16_t>(description.address);
  writer.integer(description.credits);
  writer.integer(static_cast<std::uint8_t>(description.mark_width));
  writer.integer(static_cast<std::uint32_t>(description.regions.size()));
  for (const auto& [id, region] : description.regions) {
    writer.integer(id);
    writer.integer(region.bytes);
    writer.integer(region.address);
    writer.integer(region.key);
  }
  return writer.take();
}

base::Result<Description> parse_description(std::span<const std::byte> blob) {
  const auto corrupt = [&blob](std::string_view what) {
    return base::fail(
        base::ErrorKind::corrupt_data,
        fmt::format("descriptor of an RDMA endpoint {}: {} bytes", what, blob.size()));
  };
  base::BinaryReader reader(blob);
  if (reader.integer<std::uint32_t>() != kDescriptionMagic)
    return corrupt("does not begin like one");
  if (reader.integer<std::uint8_t>() != kDescriptionVersion) return corrupt("has another version");
  Description description;
  description.provider = reader.text<std::uint16_t>();
  description.address = reader.text<std::uint16_t>();
  description.credits = reader.integer<std::uint32_t>();
  const auto width = reader.integer<std::uint8_t>();
  const auto regions = reader.integer<std::uint32_t>();
  for (std::uint32_t i = 0; i < regions && reader.good(); ++i) {
    const auto id = reader.integer<RegionId>();
    RemoteRegion region;
    region.bytes = reader.integer<std::uint64_t>();
    region.address = reader.integer<std::uint64_t>();
    region.key = reader.integer<std::uint64_t>();
    if (!description.regions.emplace(id, region).second) return corrupt("names a region twice");
  }
  if (!reader.good()) return corrupt("is cut short");
  if (reader.left() > 0) return corrupt("has bytes too many");
  if (width != static_cast<std::uint8_t>(MarkWidth::narrow) &&
      width != static_cast<std::uint8_t>(MarkWidth::wide)) {
    return corrupt("has completion data of another size");
  }
  if (description.credits == 0 || description.credits > 0xffff) return corrupt("grants no credit");
  description.mark_width = static_cast<MarkWidth>(width);
  return description;
}

}  // namespace dlobd::transport::fabric
