// Memory for elements of 16 bits, page-aligned and registrable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "compute/arena.h"
#include "exchange/buffer.h"

namespace dlobd::exchange {

// Room for `size` elements of `bytes` each in a buffer of floats.
constexpr std::size_t floats_for(std::size_t size, std::size_t bytes) {
  return (size * bytes + sizeof(float) - 1) / sizeof(float);
}

inline std::span<std::uint16_t> halves_of(std::span<std::byte> bytes) {
  return {reinterpret_cast<std::uint16_t*>(bytes.data()), bytes.size() / sizeof(std::uint16_t)};
}

}  // namespace dlobd::exchange
