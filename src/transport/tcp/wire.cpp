#include "transport/tcp/wire.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/binary.h"
#include "base/check.h"

namespace dlobd::transport::tcp {

using base::load;
using base::store;

namespace {

constexpr std::uint32_t kHelloMagic = 0x4f4c4c44U;  // "DLLO"
constexpr std::uint16_t kVersion = 1;
constexpr std::uint32_t kFrameMark = 0x454d5246U;  // "FRME": a stream that has slipped is noticed

base::Failure corrupt(std::string message) {
  return base::fail(base::ErrorKind::corrupt_data, std::move(message));
}

}  // namespace

// 0 mark, 4 type, 5 kind, 6 traffic, 7 zero, 8 index, 12 region, 14 zero, 16 offset, 24 bytes,
// 32 total, 40 sequence, 48 sender_ready
void encode(const FrameHeader& header, HeaderBytes& to) {
  std::byte* at = to.data();
  store(at, kFrameMark);
  store(at + 4, static_cast<std::uint8_t>(header.type));
  store(at + 5, header.notification.kind);
  store(at + 6, static_cast<std::uint8_t>(header.traffic));
  store(at + 7, std::uint8_t{0});
  store(at + 8, header.notification.index);
  store(at + 12, header.region);
  store(at + 14, std::uint16_t{0});
  store(at + 16, header.offset_bytes);
  store(at + 24, header.bytes);
  store(at + 32, header.total_bytes);
  store(at + 40, header.sequence);
  store(at + 48, static_cast<std::uint64_t>(header.sender_ready.count()));
}

base::Result<FrameHeader> parse_header(std::span<const std::byte, kHeaderBytes> bytes) {
  const std::byte* at = bytes.data();
  const auto mark = load<std::uint32_t>(at);
  if (mark != kFrameMark) return corrupt(fmt::format("no frame begins here: {:#010x}", mark));
  const auto type = load<std::uint8_t>(at + 4);
  const auto kind = load<std::uint8_t>(at + 5);
  const auto traffic = load<std::uint8_t>(at + 6);
  if (type < 1 || type > 3) return corrupt(fmt::format("unknown type of frame: {}", type));
  if (kind >= kMaxKinds) return corrupt(fmt::format("unknown kind of message: {}", kind));
  if (traffic >= kTrafficClasses) return corrupt(fmt::format("unknown traffic class: {}", traffic));
  if (load<std::uint8_t>(at + 7) != 0 || load<std::uint16_t>(at + 14) != 0) {
    return corrupt("a frame has bits set that must be zero");
  }
  FrameHeader header;
  header.type = static_cast<FrameType>(type);
  header.traffic = static_cast<Traffic>(traffic);
  header.notification.kind = kind;
  header.notification.index = load<std::uint32_t>(at + 8);
  header.region = load<std::uint16_t>(at + 12);
  header.offset_bytes = load<std::uint64_t>(at + 16);
  header.bytes = load<std::uint64_t>(at + 24);
  header.total_bytes = load<std::uint64_t>(at + 32);
  header.sequence = load<std::uint64_t>(at + 40);
  header.sender_ready = base::Time(static_cast<std::int64_t>(load<std::uint64_t>(at + 48)));
  if (header.bytes > header.total_bytes) {
    return corrupt(fmt::format("a frame is larger than its message: {} of {} bytes", header.bytes,
                               header.total_bytes));
  }
  return header;
}

base::Result<void> check_frame(const FrameHeader& header, const RegionSizes& regions) {
  if (header.type == FrameType::bye) {
    if (header.bytes != 0)
      return corrupt(fmt::format("a bye has a payload: {} bytes", header.bytes));
    return {};
  }
  if (header.type == FrameType::message) {
    if (header.total_bytes > kMaxMessageBytes || header.bytes != header.total_bytes) {
      return corrupt(fmt::format("a two-sided message is too large or in parts: {} of {} bytes",
                                 header.bytes, header.total_bytes));
    }
    return {};
  }
  const auto region = regions.find(header.region);
  if (region == regions.end()) {
    return corrupt(fmt::format("a write to a region that is not registered: {}", header.region));
  }
  if (header.offset_bytes > region->second || header.bytes > region->second - header.offset_bytes) {
    return corrupt(fmt::format("a write outside its region: region {}, {} bytes at {} of {}",
                               header.region, header.bytes, header.offset_bytes, region->second));
  }
  return {};
}

std::string_view describe(Answer answer) {
  switch (answer) {
    case Answer::asking: return "no answer";
    case Answer::welcome: return "welcome";
    case Answer::wrong_token: return "another job's token";
    case Answer::wrong_rank: return "not a rank or a connection that is expected here";
    case Answer::duplicate: return "that rank is connected already";
  }
  return "unknown";
}

HelloBytes encode(const Hello& hello) {
  CHECK(hello.token.size() <= kMaxTokenBytes, "token of {} bytes", hello.token.size());
  HelloBytes bytes{};
  std::byte* at = bytes.data();
  store(at, kHelloMagic);
  store(at + 4, kVersion);
  store(at + 6, static_cast<std::uint8_t>(hello.answer));
  store(at + 7, static_cast<std::uint8_t>(hello.token.size()));
  store(at + 8, hello.rank);
  store(at + 12, hello.peer);
  store(at + 16, hello.world_size);
  store(at + 20, hello.connection);
  std::transform(hello.token.begin(), hello.token.end(), at + 24,
                 [](char letter) { return static_cast<std::byte>(letter); });
  return bytes;
}

base::Result<Hello> parse_hello(std::span<const std::byte, kHelloBytes> bytes) {
  const std::byte* at = bytes.data();
  const auto magic = load<std::uint32_t>(at);
  if (magic != kHelloMagic) return corrupt(fmt::format("not a greeting: begins {:#010x}", magic));
  const auto version = load<std::uint16_t>(at + 4);
  if (version != kVersion) {
    return corrupt(
        fmt::format("a greeting of another version: {}, expected {}", version, kVersion));
  }
  const auto answer = load<std::uint8_t>(at + 6);
  const auto token_bytes = load<std::uint8_t>(at + 7);
  if (answer > static_cast<std::uint8_t>(Answer::duplicate) || token_bytes > kMaxTokenBytes) {
    return corrupt(fmt::format("a greeting that makes no sense: answer {}, token of {} bytes",
                               answer, token_bytes));
  }
  Hello hello;
  hello.answer = static_cast<Answer>(answer);
  hello.rank = load<std::uint32_t>(at + 8);
  hello.peer = load<std::uint32_t>(at + 12);
  hello.world_size = load<std::uint32_t>(at + 16);
  hello.connection = load<std::uint32_t>(at + 20);
  hello.token.assign(reinterpret_cast<const char*>(at + 24), token_bytes);
  return hello;
}

}  // namespace dlobd::transport::tcp
