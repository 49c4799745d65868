// The 16-bit elements against plain arithmetic in double precision: every pattern there is, and on
// both sides of every point between two neighbours.
#include "compute/wire_element.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "compute/kernels.h"

namespace dlobd::compute {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Format {
  WireElement element;
  int fraction_bits;
  int least_exponent;  // of a normal number
  float largest;
};

const Format kFloat16{WireElement::float16, 10, -14, 65504.0F};
const Format kBfloat16{WireElement::bfloat16, 7, -126, 0x1.fep+127F};
const Format kTruncated16{WireElement::truncated16, 7, -126, 0x1.fep+127F};

std::vector<std::uint16_t> encoded(WireElement element, std::vector<float> values) {
  std::vector<std::uint16_t> wire(values.size());
  cpu_kernels().round(element, wire, values, {});
  return wire;
}

std::vector<float> decoded(WireElement element, const std::vector<std::uint16_t>& wire) {
  std::vector<float> values(wire.size());
  cpu_kernels().decode(element, values, wire);
  return values;
}

// In memory BigDL's elements have their high byte first.
std::uint16_t in_order(WireElement element, std::uint16_t pattern) {
  if (element != WireElement::truncated16) return pattern;
  return static_cast<std::uint16_t>(pattern << 8 | pattern >> 8);
}

// Sign, exponent, fraction, as the formats' definitions have it.
double value_of(const Format& format, std::uint16_t pattern) {
  const double sign = (pattern & 0x8000) != 0 ? -1 : 1;
  const int magnitude = pattern & 0x7fff;
  const int exponent = magnitude >> format.fraction_bits;
  const int fraction = magnitude & ((1 << format.fraction_bits) - 1);
  const int last = (0x7fff >> format.fraction_bits);
  if (exponent == last) return fraction == 0 ? sign * kInfinity : std::nan("");
  if (exponent == 0)
    return sign * std::ldexp(fraction, format.least_exponent - format.fraction_bits);
  return sign * std::ldexp(fraction + (1 << format.fraction_bits),
                           format.least_exponent + exponent - 1 - format.fraction_bits);
}

class WireElements : public ::testing::TestWithParam<Format> {};

TEST_P(WireElements, EveryPatternMeansWhatItsFormatSaysAndComesBack) {
  const Format format = GetParam();
  std::vector<std::uint16_t> patterns;
  for (int i = 0; i < 0x10000; ++i) {
    patterns.push_back(in_order(format.element, static_cast<std::uint16_t>(i)));
  }
  const auto values = decoded(format.element, patterns);
  const auto again = encoded(format.element, values);
  for (int i = 0; i < 0x10000; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double want = value_of(format, static_cast<std::uint16_t>(i));
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(values[at])) << i;
      ASSERT_TRUE(std::isnan(decoded(format.element, {again[at]}).front())) << i;
      continue;
    }
    ASSERT_EQ(values[at], want) << i;
    ASSERT_EQ(std::signbit(values[at]), i >= 0x8000) << i;
    ASSERT_EQ(again[at], patterns[at]) << i;
  }
}

TEST_P(WireElements, RoundToTheRightNeighbour) {
  const Format format = GetParam();
  const bool toward_zero = format.element == WireElement::truncated16;
  std::vector<float> values;
  std::vector<double> want;
  const auto expect = [&](float value, double nearest) {
    values.insert(values.end(), {value, -value});
    want.insert(want.end(), {nearest, -nearest});
  };
  for (int i = 0;; ++i) {
    const double low = value_of(format, static_cast<std::uint16_t>(i));
    const double high = value_of(format, static_cast<std::uint16_t>(i + 1));
    if (!std::isfinite(high)) break;
    const auto middle = static_cast<float>((low + high) / 2);
    expect(middle, toward_zero || i % 2 == 0 ? low : high);
    expect(std::nextafter(middle, 0.0F), low);
    expect(std::nextafter(middle, kInfinity), toward_zero ? low : high);
    expect(std::nextafter(static_cast<float>(high), 0.0F), toward_zero ? low : high);
  }
  const auto got = decoded(format.element, encoded(format.element, values));
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(got[i], want[i]) << values[i];
}

TEST_P(WireElements, WhatIsTooLargeBecomesTheLargest) {
  const Format format = GetParam();
  const float most = std::numeric_limits<float>::max();
  const auto got =
      decoded(format.element,
              encoded(format.element, {most, -most, kInfinity, -kInfinity, format.largest}));
  EXPECT_THAT(got, ::testing::ElementsAre(format.largest, -format.largest, kInfinity, -kInfinity,
                                          format.largest));
  // A NaN that is marked in the lower half alone, too.
  const auto nans = decoded(
      format.element, encoded(format.element, {std::nanf(""), std::bit_cast<float>(0x7f800001),
                                               std::bit_cast<float>(0xffffffff)}));
  for (const float each : nans) EXPECT_TRUE(std::isnan(each));
}

// Whatever the loop's width, its beginning and its end.
TEST_P(WireElements, RoundingLosesNothing) {
  const WireElement element = GetParam().element;
  for (std::size_t size = 0; size < 70; ++size) {
    std::vector<float> value(size);
    for (std::size_t i = 0; i < size; ++i) value[i] = std::sin(static_cast<float>(i + 7 * size));
    std::vector<float> residual(size, 0.25F);
    auto sum = value;
    cpu_kernels().take(sum, residual);
    for (std::size_t i = 0; i < size; ++i) EXPECT_EQ(sum[i], value[i] + 0.25F);
    EXPECT_EQ(residual, std::vector<float>(size, 0.0F));
    std::vector<std::uint16_t> wire(size);
    auto left = sum;
    cpu_kernels().round(element, wire, left, residual);
    EXPECT_EQ(left, decoded(element, wire));
    for (std::size_t i = 0; i < size; ++i) EXPECT_EQ(left[i] + residual[i], sum[i]);
    auto doubled = left;
    cpu_kernels().add_decoded(element, doubled, wire);
    for (std::size_t i = 0; i < size; ++i) EXPECT_EQ(doubled[i], 2 * left[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, WireElements,
                         ::testing::Values(kFloat16, kBfloat16, kTruncated16),
                         [](const auto& each) { return std::string(name(each.param.element)); });

TEST(WireElementNames, ComeBackAndTheNearestIsNamed) {
  for (const char* word : {"float32", "float16", "bfloat16", "truncated16"}) {
    const auto parsed = parse_wire_element(word);
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(name(*parsed), word);
    EXPECT_EQ(bytes_of(*parsed), std::string_view(word) == "float32" ? 4U : 2U);
  }
  EXPECT_THAT(parse_wire_element("flot16").error().message,
              ::testing::HasSubstr("did you mean float16?"));
}

}  // namespace
}  // namespace dlobd::compute
