// What a gradient is on its way between ranks. The 16-bit elements are half a float32 in size; what
// they lose is kept by whoever rounds (error feedback, see kernels.h).
//
//   float16      IEEE half: 11 bits of precision, up to 65504, rounded to nearest, ties to even
//   bfloat16     float32's range with 8 bits of precision, rounded likewise
//   truncated16  the upper half of a float32, so rounded toward zero: BigDL's, high byte first
//
// A finite number that is too large becomes the largest that there is: what is cut off stays behind
// as any other error does. Infinity and NaN stay what they are.
// float16 and bfloat16 lie in memory in the machine's byte order, as float32 does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"

namespace dlobd::compute {

enum class WireElement : std::uint8_t { float32, float16, bfloat16, truncated16 };

std::string_view name(WireElement element);
// invalid_argument with the nearest name.
base::Result<WireElement> parse_wire_element(std::string_view word);
constexpr std::size_t bytes_of(WireElement element) {
  return element == WireElement::float32 ? sizeof(float) : sizeof(std::uint16_t);
}

// The loops behind Kernels::round and its neighbours, for the elements of 16 bits; CHECKs that it
// is one of them.
void round_elements(WireElement element, std::uint16_t* wire, float* value, float* residual,
                    std::size_t size);
void decode_elements(WireElement element, float* value, const std::uint16_t* wire,
                     std::size_t size);
void add_elements(WireElement element, float* sum, const std::uint16_t* wire, std::size_t size);

}  // namespace dlobd::compute
