// Integers to and from bytes, least significant byte first, for everything that travels.
// A Reader never reads past its end: a short input makes it bad, and everything it gives then is 0.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dlobd::transport {

template <std::unsigned_integral T>
void store(std::byte* to, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    to[i] = static_cast<std::byte>((value >> (8 * i)) & 0xffU);
  }
}

template <std::unsigned_integral T>
T load(const std::byte* from) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | (std::to_integer<T>(from[i]) << (8 * i)));
  }
  return value;
}

class Writer {
 public:
  template <std::unsigned_integral T>
  void put(T value) {
    bytes_.resize(bytes_.size() + sizeof(T));
    store(bytes_.data() + bytes_.size() - sizeof(T), value);
  }
  void put(std::string_view text) {
    put(static_cast<std::uint16_t>(text.size()));
    const auto* first = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), first, first + text.size());
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <std::unsigned_integral T>
  T get() {
    if (bytes_.size() < sizeof(T)) {
      good_ = false;
      bytes_ = {};
      return 0;
    }
    const T value = load<T>(bytes_.data());
    bytes_ = bytes_.subspan(sizeof(T));
    return value;
  }
  std::string get_text() {
    const auto size = get<std::uint16_t>();
    if (bytes_.size() < size) {
      good_ = false;
      bytes_ = {};
      return {};
    }
    std::string text(reinterpret_cast<const char*>(bytes_.data()), size);
    bytes_ = bytes_.subspan(size);
    return text;
  }
  // Everything so far was there.
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] bool at_end() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
  bool good_ = true;
};

}  // namespace dlobd::transport
