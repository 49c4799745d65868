// The upper 16 bits of a float32, as BigDL puts them on the wire.
#pragma once

#include <bit>
#include <cstdint>

namespace dlobd::compute {

// High byte first, whatever the machine's order; its own inverse.
inline std::uint16_t in_wire_order(std::uint16_t upper) {
  if constexpr (std::endian::native == std::endian::big) return upper;
  return static_cast<std::uint16_t>(upper << 8 | upper >> 8);
}

inline std::uint16_t truncated(float value) {
  return in_wire_order(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
}

inline float widened(std::uint16_t upper) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(in_wire_order(upper)) << 16);
}

}  // namespace dlobd::compute
