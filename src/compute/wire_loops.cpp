// The conversions and loops of the 16-bit elements; compiled for speed.
#include <algorithm>
#include <bit>

#include "base/check.h"
#include "compute/upper_half.h"
#include "compute/vectorize.h"
#include "compute/wire_element.h"

namespace dlobd::compute {
namespace {

constexpr std::uint32_t kInfinity = 0x7f800000;  // of float32, as are the numbers below
constexpr std::uint32_t kMagnitude = 0x7fffffff;

float float_of(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}
std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

struct Float16 {
  // A number of the magnitude's exponent, at least that of the smallest normal half, is added: the
  // sum keeps the eleven bits that a half has, and the processor rounds it. The two factors make
  // infinity of what a half cannot hold.
  static std::uint16_t encode(float value) {
    constexpr std::uint32_t kLeast = 0x38800000;  // 2^-14
    const std::uint32_t magnitude = bits_of(value) & kMagnitude;
    const std::uint32_t exponent = std::max(magnitude & kInfinity, kLeast);
    const float scaled = float_of(magnitude) * 0x1.0p+112F * 0x1.0p-110F;
    const std::uint32_t sum = bits_of(float_of(exponent + 0x07800000) + scaled);
    const std::uint32_t rounded = ((sum >> 13) & 0x7c00U) + (sum & 0x0fffU);
    const std::uint32_t beyond = magnitude > kInfinity ? 0x7e00U : 0x7c00U;
    const std::uint32_t half =
        magnitude >= kInfinity ? beyond : std::min(rounded, std::uint32_t{0x7bff});
    return static_cast<std::uint16_t>((bits_of(value) >> 16 & 0x8000U) | half);
  }
  // Normal: the exponent moves to float32's, whose largest gives infinity and NaN; below normal:
  // the bits become a fraction of 0.5 to 1, from which 0.5 is taken.
  static float decode(std::uint16_t half) {
    const std::uint32_t magnitude = half & 0x7fffU;
    const float normal = float_of((magnitude << 13) + 0x70000000) * 0x1.0p-112F;
    const float below = float_of(0x3f000000 | magnitude) - 0.5F;
    const std::uint32_t bits = magnitude < 0x0400 ? bits_of(below) : bits_of(normal);
    return float_of(bits | static_cast<std::uint32_t>(half & 0x8000U) << 16);
  }
};

struct Bfloat16 {
  // Half of the last place, less one bit where the result would be odd: ties go to even.
  static std::uint16_t encode(float value) {
    const std::uint32_t bits = bits_of(value);
    const std::uint32_t magnitude = bits & kMagnitude;
    const std::uint32_t rounded = (magnitude + 0x7fffU + (magnitude >> 16 & 1U)) >> 16;
    const std::uint32_t beyond = magnitude > kInfinity ? (magnitude >> 16 | 0x40U) : 0x7f80U;
    const std::uint32_t half =
        magnitude >= kInfinity ? beyond : std::min(rounded, std::uint32_t{0x7f7f});
    return static_cast<std::uint16_t>((bits >> 16 & 0x8000U) | half);
  }
  static float decode(std::uint16_t half) {
    return float_of(static_cast<std::uint32_t>(half) << 16);
  }
};

struct Truncated16 {
  // A NaN whose mark lies in the lower half would become infinity.
  static std::uint16_t encode(float value) {
    const std::uint32_t bits = bits_of(value);
    const std::uint32_t quiet = (bits & kMagnitude) > kInfinity ? 0x00400000U : 0U;
    return truncated(float_of(bits | quiet));
  }
  static float decode(std::uint16_t half) { return widened(half); }
};

template <class Element>
[[gnu::always_inline]] inline void round_loop(std::uint16_t* wire, float* value, float* residual,
                                              std::size_t size) {
  if (residual == nullptr) {
    DLOBD_VECTORIZE
    for (std::size_t i = 0; i < size; ++i) {
      wire[i] = Element::encode(value[i]);
      value[i] = Element::decode(wire[i]);
    }
    return;
  }
  DLOBD_VECTORIZE
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint16_t half = Element::encode(value[i]);
    const float left = Element::decode(half);
    wire[i] = half;
    residual[i] += value[i] - left;
    value[i] = left;
  }
}

template <class Element>
[[gnu::always_inline]] inline void decode_loop(float* value, const std::uint16_t* wire,
                                               std::size_t size) {
  DLOBD_VECTORIZE
  for (std::size_t i = 0; i < size; ++i) value[i] = Element::decode(wire[i]);
}

template <class Element>
[[gnu::always_inline]] inline void add_loop(float* sum, const std::uint16_t* wire,
                                            std::size_t size) {
  DLOBD_VECTORIZE
  for (std::size_t i = 0; i < size; ++i) sum[i] += Element::decode(wire[i]);
}

// Functions of their own: what is cloned for an instruction set is no template.
DLOBD_CLONES void round_float16(std::uint16_t* wire, float* value, float* residual,
                                std::size_t size) {
  round_loop<Float16>(wire, value, residual, size);
}
DLOBD_CLONES void round_bfloat16(std::uint16_t* wire, float* value, float* residual,
                                 std::size_t size) {
  round_loop<Bfloat16>(wire, value, residual, size);
}
DLOBD_CLONES void round_truncated16(std::uint16_t* wire, float* value, float* residual,
                                    std::size_t size) {
  round_loop<Truncated16>(wire, value, residual, size);
}
DLOBD_CLONES void decode_float16(float* value, const std::uint16_t* wire, std::size_t size) {
  decode_loop<Float16>(value, wire, size);
}
DLOBD_CLONES void decode_bfloat16(float* value, const std::uint16_t* wire, std::size_t size) {
  decode_loop<Bfloat16>(value, wire, size);
}
DLOBD_CLONES void decode_truncated16(float* value, const std::uint16_t* wire, std::size_t size) {
  decode_loop<Truncated16>(value, wire, size);
}
DLOBD_CLONES void add_float16(float* sum, const std::uint16_t* wire, std::size_t size) {
  add_loop<Float16>(sum, wire, size);
}
DLOBD_CLONES void add_bfloat16(float* sum, const std::uint16_t* wire, std::size_t size) {
  add_loop<Bfloat16>(sum, wire, size);
}
DLOBD_CLONES void add_truncated16(float* sum, const std::uint16_t* wire, std::size_t size) {
  add_loop<Truncated16>(sum, wire, size);
}

}  // namespace

void round_elements(WireElement element, std::uint16_t* wire, float* value, float* residual,
                    std::size_t size) {
  switch (element) {
    case WireElement::float16: return round_float16(wire, value, residual, size);
    case WireElement::bfloat16: return round_bfloat16(wire, value, residual, size);
    case WireElement::truncated16: return round_truncated16(wire, value, residual, size);
    case WireElement::float32: break;
  }
  CHECK(false, "{} is not rounded", name(element));
}

void decode_elements(WireElement element, float* value, const std::uint16_t* wire,
                     std::size_t size) {
  switch (element) {
    case WireElement::float16: return decode_float16(value, wire, size);
    case WireElement::bfloat16: return decode_bfloat16(value, wire, size);
    case WireElement::truncated16: return decode_truncated16(value, wire, size);
    case WireElement::float32: break;
  }
  CHECK(false, "{} is not decoded", name(element));
}

void add_elements(WireElement element, float* sum, const std::uint16_t* wire, std::size_t size) {
  switch (element) {
    case WireElement::float16: return add_float16(sum, wire, size);
    case WireElement::bfloat16: return add_bfloat16(sum, wire, size);
    case WireElement::truncated16: return add_truncated16(sum, wire, size);
    case WireElement::float32: break;
  }
  CHECK(false, "{} is not decoded", name(element));
}

}  // namespace dlobd::compute
