#include "cluster/messages.h"

#include <fmt/format.h>

#include <string_view>
#include <type_traits>
#include <utility>

#include "base/binary.h"

namespace dlobd::cluster {

namespace {

using base::BinaryReader;
using base::BinaryWriter;
using base::ErrorKind;
using base::Result;

constexpr std::string_view kMagic = "dlobd-1\n";
using Length = std::uint32_t;  // of strings and blobs
constexpr std::uint32_t kMaxGathered = 1 << 20;

// The tag of a message is its place in the variant.
template <class T, std::size_t I = 0>
constexpr std::uint8_t tag_of() {
  if constexpr (std::is_same_v<std::variant_alternative_t<I, Message>, T>) {
    return static_cast<std::uint8_t>(I);
  } else {
    return tag_of<T, I + 1>();
  }
}

void put(BinaryWriter&, const Welcome&) {}
void put(BinaryWriter&, const Heartbeat&) {}
void put(BinaryWriter&, const StopRequest&) {}
void put(BinaryWriter&, const ByeAll&) {}
void put(BinaryWriter&, const Aside&) {}
void put(BinaryWriter& w, const Hello& m) {
  for (const char c : kMagic) w.integer(static_cast<std::uint8_t>(c));
  w.text<Length>(m.version);
  w.text<Length>(m.token);
  w.text<Length>(m.configuration);
  w.integer(m.rank);
  w.integer(m.world_size);
  w.text<Length>(m.host);
}
void put(BinaryWriter& w, const Refuse& m) {
  w.integer(static_cast<std::uint8_t>(m.kind));
  w.integer(m.rank);
  w.text<Length>(m.reason);
}
void put(BinaryWriter& w, const Gather& m) {
  w.integer(m.sequence);
  w.text<Length>(m.what);
  w.bytes<Length>(m.blob);
}
void put(BinaryWriter& w, const Gathered& m) {
  w.integer(m.sequence);
  w.integer(static_cast<std::uint32_t>(m.blobs.size()));
  for (const auto& blob : m.blobs) w.bytes<Length>(blob);
}
void put(BinaryWriter& w, const Phase& m) {
  w.text<Length>(m.phase);
}
void put(BinaryWriter& w, const Suspect& m) {
  w.integer(m.peer);
  w.text<Length>(m.reason);
}
void put(BinaryWriter& w, const Failure& m) {
  w.text<Length>(m.reason);
}
void put(BinaryWriter& w, const VerdictMessage& m) {
  w.integer(static_cast<std::uint8_t>(m.failed ? 1 : 0));
  w.integer(m.culprit);
  w.text<Length>(m.phase);
  w.text<Length>(m.reason);
}
void put(BinaryWriter& w, const StopReply& m) {
  w.integer(m.begun);
}
void put(BinaryWriter& w, const StopAt& m) {
  w.integer(m.step);
}
void put(BinaryWriter& w, const Ship& m) {
  w.bytes<Length>(m.blob);
}
void put(BinaryWriter& w, const Bye& m) {
  w.integer(m.begun);
}
void put(BinaryWriter& w, const Run& m) {
  w.text<Length>(m.name);
}

void get(BinaryReader&, Welcome&) {}
void get(BinaryReader&, Heartbeat&) {}
void get(BinaryReader&, StopRequest&) {}
void get(BinaryReader&, ByeAll&) {}
void get(BinaryReader&, Aside&) {}
void get(BinaryReader& r, Hello& m) {
  for (const char c : kMagic) {
    if (r.integer<std::uint8_t>() != static_cast<std::uint8_t>(c)) r.refuse();
  }
  m.version = r.text<Length>();
  m.token = r.text<Length>();
  m.configuration = r.text<Length>();
  m.rank = r.integer<std::int32_t>();
  m.world_size = r.integer<std::int32_t>();
  m.host = r.text<Length>();
}
void get(BinaryReader& r, Refuse& m) {
  const auto kind = r.integer<std::uint8_t>();
  if (kind > static_cast<std::uint8_t>(ErrorKind::cancelled)) {
    r.refuse();
  } else {
    m.kind = static_cast<ErrorKind>(kind);
  }
  m.rank = r.integer<std::int32_t>();
  m.reason = r.text<Length>();
}
void get(BinaryReader& r, Gather& m) {
  m.sequence = r.integer<std::uint64_t>();
  m.what = r.text<Length>();
  m.blob = r.bytes<Length>();
}
void get(BinaryReader& r, Gathered& m) {
  m.sequence = r.integer<std::uint64_t>();
  const auto count = r.integer<std::uint32_t>();
  // Each blob takes its length at least.
  if (count > kMaxGathered || count > r.left() / sizeof(std::uint32_t)) {
    r.refuse();
    return;
  }
  m.blobs.reserve(count);
  for (std::uint32_t i = 0; i < count && r.good(); ++i) m.blobs.push_back(r.bytes<Length>());
}
void get(BinaryReader& r, Phase& m) {
  m.phase = r.text<Length>();
}
void get(BinaryReader& r, Suspect& m) {
  m.peer = r.integer<std::int32_t>();
  m.reason = r.text<Length>();
}
void get(BinaryReader& r, Failure& m) {
  m.reason = r.text<Length>();
}
void get(BinaryReader& r, VerdictMessage& m) {
  const auto failed = r.integer<std::uint8_t>();
  if (failed > 1) r.refuse();
  m.failed = failed == 1;
  m.culprit = r.integer<std::int32_t>();
  m.phase = r.text<Length>();
  m.reason = r.text<Length>();
}
void get(BinaryReader& r, StopReply& m) {
  m.begun = r.integer<std::uint64_t>();
}
void get(BinaryReader& r, StopAt& m) {
  m.step = r.integer<std::uint64_t>();
}
void get(BinaryReader& r, Ship& m) {
  m.blob = r.bytes<Length>();
}
void get(BinaryReader& r, Bye& m) {
  m.begun = r.integer<std::uint64_t>();
}
void get(BinaryReader& r, Run& m) {
  m.name = r.text<Length>();
}

template <std::size_t I = 0>
Result<Message> decode_tag(std::uint8_t tag, std::span<const std::byte> body) {
  if constexpr (I == std::variant_size_v<Message>) {
    return base::fail(ErrorKind::corrupt_data,
                      fmt::format("control frame with an unknown tag: {}", tag));
  } else {
    if (tag != I) return decode_tag<I + 1>(tag, body);
    std::variant_alternative_t<I, Message> message;
    BinaryReader reader(body);
    get(reader, message);
    if (!reader.good() || reader.left() != 0) {
      return base::fail(
          ErrorKind::corrupt_data,
          fmt::format("control frame with wrong fields: tag {}, {} bytes", tag, body.size()));
    }
    return Message(std::move(message));
  }
}

}  // namespace

std::vector<std::byte> encode(const Message& message) {
  BinaryWriter writer;
  std::visit(
      [&writer]<class T>(const T& m) {
        writer.integer(tag_of<T>());
        put(writer, m);
      },
      message);
  return writer.take();
}

Result<Message> decode(std::span<const std::byte> frame) {
  if (frame.empty()) return base::fail(ErrorKind::corrupt_data, "control frame without a byte");
  return decode_tag(std::to_integer<std::uint8_t>(frame[0]), frame.subspan(1));
}

}  // namespace dlobd::cluster
