// Values to and from bytes, least significant byte first, for everything that travels.
//
//   store, load    one integer at a place that is known to hold it
//   BinaryWriter   one value after the other; lengths before what has no fixed size
//   BinaryReader   the same way back, from bytes that nobody vouches for: it never reads past its
//                  end and allocates no more than the bytes hold. After the first value that is not
//                  there, or a refusal, it is not good() and gives zeros only.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"

namespace dlobd::base {

template <std::integral T>
void store(std::byte* to, T value) {
  const auto bits = static_cast<std::make_unsigned_t<T>>(value);
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    to[i] = static_cast<std::byte>((bits >> (8 * i)) & 0xffU);
  }
}

template <std::integral T>
T load(const std::byte* from) {
  std::make_unsigned_t<T> bits = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    bits = static_cast<std::make_unsigned_t<T>>(
        bits | (std::to_integer<std::make_unsigned_t<T>>(from[i]) << (8 * i)));
  }
  return static_cast<T>(bits);
}

class BinaryWriter {
 public:
  template <std::integral T>
  void integer(T value) {
    bytes_.resize(bytes_.size() + sizeof(T));
    store(bytes_.data() + bytes_.size() - sizeof(T), value);
  }
  void real(double value) { integer(std::bit_cast<std::uint64_t>(value)); }
  // Their number, as a Length, and then the bytes.
  template <std::unsigned_integral Length>
  void bytes(std::span<const std::byte> bytes) {
    CHECK(bytes.size() <= std::numeric_limits<Length>::max(), "a length of {}", bytes.size());
    integer(static_cast<Length>(bytes.size()));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  template <std::unsigned_integral Length>
  void text(std::string_view text) {
    bytes<Length>(std::as_bytes(std::span(text)));
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class BinaryReader {
 public:
  explicit BinaryReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <std::integral T>
  T integer() {
    const auto taken = take(sizeof(T));
    return taken.empty() ? T{0} : load<T>(taken.data());
  }
  double real() { return std::bit_cast<double>(integer<std::uint64_t>()); }
  template <std::unsigned_integral Length>
  std::vector<std::byte> bytes() {
    const auto taken = take(integer<Length>());
    return {taken.begin(), taken.end()};
  }
  template <std::unsigned_integral Length>
  std::string text() {
    const auto taken = take(integer<Length>());
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }

  // A value that came makes no sense.
  void refuse() {
    good_ = false;
    rest_ = {};
  }
  // Everything so far was there.
  [[nodiscard]] bool good() const { return good_; }
  // How many bytes are left.
  [[nodiscard]] std::size_t left() const { return rest_.size(); }

 private:
  std::span<const std::byte> take(std::uint64_t size) {
    if (size > rest_.size()) {
      refuse();
      return {};
    }
    const auto taken = rest_.first(static_cast<std::size_t>(size));
    rest_ = rest_.subspan(static_cast<std::size_t>(size));
    return taken;
  }

  std::span<const std::byte> rest_;
  bool good_ = true;
};

}  // namespace dlobd::base
