#include "cluster/messages.h"

#include <fmt/format.h>

#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

namespace dlobd::cluster {

namespace {

using base::ErrorKind;
using base::Result;

constexpr std::string_view kMagic = "dlobd-1\n";
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

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}

  template <class T>
  void integer(T value) {
    const auto bits = static_cast<std::make_unsigned_t<T>>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      out_.push_back(static_cast<std::byte>((bits >> (8 * i)) & 0xFF));
    }
  }
  void bytes(std::span<const std::byte> bytes) {
    integer(static_cast<std::uint32_t>(bytes.size()));
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  void text(std::string_view text) { bytes(std::as_bytes(std::span(text))); }

 private:
  std::vector<std::byte>& out_;
};

// Reads fields; after the first that is not there, all are empty and ok() is false.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}

  template <class T>
  T integer() {
    std::make_unsigned_t<T> bits = 0;
    if (!has(sizeof(T))) return 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      bits |= static_cast<std::make_unsigned_t<T>>(
          static_cast<std::make_unsigned_t<T>>(std::to_integer<std::uint8_t>(in_[i])) << (8 * i));
    }
    in_ = in_.subspan(sizeof(T));
    return static_cast<T>(bits);
  }
  std::span<const std::byte> take(std::size_t size) {
    if (!has(size)) return {};
    const auto taken = in_.first(size);
    in_ = in_.subspan(size);
    return taken;
  }
  std::vector<std::byte> bytes() {
    const auto taken = take(integer<std::uint32_t>());
    return {taken.begin(), taken.end()};
  }
  std::string text() {
    const auto taken = take(integer<std::uint32_t>());
    std::string text(taken.size(), '\0');
    if (!taken.empty()) std::memcpy(text.data(), taken.data(), taken.size());
    return text;
  }
  void refuse() { ok_ = false; }
  [[nodiscard]] std::size_t left() const { return in_.size(); }
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  bool has(std::size_t size) {
    if (in_.size() < size) ok_ = false;
    return ok_;
  }

  std::span<const std::byte> in_;
  bool ok_ = true;
};

void put(Writer&, const Welcome&) {}
void put(Writer&, const Heartbeat&) {}
void put(Writer&, const StopRequest&) {}
void put(Writer&, const ByeAll&) {}
void put(Writer& w, const Hello& m) {
  for (const char c : kMagic) w.integer(static_cast<std::uint8_t>(c));
  w.text(m.version);
  w.text(m.token);
  w.integer(m.configuration_hash);
  w.integer(m.rank);
  w.integer(m.world_size);
  w.text(m.host);
}
void put(Writer& w, const Refuse& m) {
  w.integer(static_cast<std::uint8_t>(m.kind));
  w.integer(m.rank);
  w.text(m.reason);
}
void put(Writer& w, const Gather& m) {
  w.integer(m.sequence);
  w.text(m.what);
  w.bytes(m.blob);
}
void put(Writer& w, const Gathered& m) {
  w.integer(m.sequence);
  w.integer(static_cast<std::uint32_t>(m.blobs.size()));
  for (const auto& blob : m.blobs) w.bytes(blob);
}
void put(Writer& w, const Phase& m) {
  w.text(m.phase);
}
void put(Writer& w, const Suspect& m) {
  w.integer(m.peer);
  w.text(m.reason);
}
void put(Writer& w, const Failure& m) {
  w.text(m.reason);
}
void put(Writer& w, const VerdictMessage& m) {
  w.integer(static_cast<std::uint8_t>(m.failed ? 1 : 0));
  w.integer(m.culprit);
  w.text(m.phase);
  w.text(m.reason);
}
void put(Writer& w, const StopReply& m) {
  w.integer(m.begun);
}
void put(Writer& w, const StopAt& m) {
  w.integer(m.step);
}
void put(Writer& w, const Ship& m) {
  w.bytes(m.blob);
}
void put(Writer& w, const Bye& m) {
  w.integer(m.begun);
}

void get(Reader&, Welcome&) {}
void get(Reader&, Heartbeat&) {}
void get(Reader&, StopRequest&) {}
void get(Reader&, ByeAll&) {}
void get(Reader& r, Hello& m) {
  const auto magic = r.take(kMagic.size());
  if (r.ok() && std::memcmp(magic.data(), kMagic.data(), kMagic.size()) != 0) r.refuse();
  m.version = r.text();
  m.token = r.text();
  m.configuration_hash = r.integer<std::uint64_t>();
  m.rank = r.integer<std::int32_t>();
  m.world_size = r.integer<std::int32_t>();
  m.host = r.text();
}
void get(Reader& r, Refuse& m) {
  const auto kind = r.integer<std::uint8_t>();
  if (kind > static_cast<std::uint8_t>(ErrorKind::cancelled)) {
    r.refuse();
  } else {
    m.kind = static_cast<ErrorKind>(kind);
  }
  m.rank = r.integer<std::int32_t>();
  m.reason = r.text();
}
void get(Reader& r, Gather& m) {
  m.sequence = r.integer<std::uint64_t>();
  m.what = r.text();
  m.blob = r.bytes();
}
void get(Reader& r, Gathered& m) {
  m.sequence = r.integer<std::uint64_t>();
  const auto count = r.integer<std::uint32_t>();
  // Each blob takes its length at least.
  if (count > kMaxGathered || count > r.left() / sizeof(std::uint32_t)) {
    r.refuse();
    return;
  }
  m.blobs.reserve(count);
  for (std::uint32_t i = 0; i < count && r.ok(); ++i) m.blobs.push_back(r.bytes());
}
void get(Reader& r, Phase& m) {
  m.phase = r.text();
}
void get(Reader& r, Suspect& m) {
  m.peer = r.integer<std::int32_t>();
  m.reason = r.text();
}
void get(Reader& r, Failure& m) {
  m.reason = r.text();
}
void get(Reader& r, VerdictMessage& m) {
  const auto failed = r.integer<std::uint8_t>();
  if (failed > 1) r.refuse();
  m.failed = failed == 1;
  m.culprit = r.integer<std::int32_t>();
  m.phase = r.text();
  m.reason = r.text();
}
void get(Reader& r, StopReply& m) {
  m.begun = r.integer<std::uint64_t>();
}
void get(Reader& r, StopAt& m) {
  m.step = r.integer<std::uint64_t>();
}
void get(Reader& r, Ship& m) {
  m.blob = r.bytes();
}
void get(Reader& r, Bye& m) {
  m.begun = r.integer<std::uint64_t>();
}

template <std::size_t I = 0>
Result<Message> decode_tag(std::uint8_t tag, std::span<const std::byte> body) {
  if constexpr (I == std::variant_size_v<Message>) {
    return base::fail(ErrorKind::corrupt_data,
                      fmt::format("control frame with an unknown tag: {}", tag));
  } else {
    if (tag != I) return decode_tag<I + 1>(tag, body);
    std::variant_alternative_t<I, Message> message;
    Reader reader(body);
    get(reader, message);
    if (!reader.ok() || reader.left() != 0) {
      return base::fail(
          ErrorKind::corrupt_data,
          fmt::format("control frame with wrong fields: tag {}, {} bytes", tag, body.size()));
    }
    return Message(std::move(message));
  }
}

}  // namespace

std::vector<std::byte> encode(const Message& message) {
  std::vector<std::byte> frame;
  Writer writer(frame);
  std::visit(
      [&writer]<class T>(const T& m) {
        writer.integer(tag_of<T>());
        put(writer, m);
      },
      message);
  return frame;
}

Result<Message> decode(std::span<const std::byte> frame) {
  if (frame.empty()) return base::fail(ErrorKind::corrupt_data, "control frame without a byte");
  return decode_tag(std::to_integer<std::uint8_t>(frame[0]), frame.subspan(1));
}

}  // namespace dlobd::cluster
