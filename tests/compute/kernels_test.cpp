// The kernels against naive scalar code, bit for bit, at odd lengths and alignments.
#include "compute/kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/random.h"

namespace dlobd::compute {
namespace {

struct Case {
  std::size_t length;
  std::size_t skew;  // elements from an aligned address
};

class KernelsTest : public testing::TestWithParam<Case> {
 protected:
  // Numbers of both signs and many magnitudes.
  static std::vector<float> numbers(std::uint64_t seed) {
    base::Random random = base::Random::of({seed, 42});
    std::vector<float> values(GetParam().length + GetParam().skew);
    for (float& value : values) {
      value = std::ldexp(random.unit() - 0.5F, static_cast<int>(random.below(40)) - 20);
    }
    return values;
  }

  static std::span<float> skewed(std::vector<float>& values) {
    return std::span<float>(values).subspan(GetParam().skew);
  }

  static void expect_bits(std::span<const float> got, std::span<const float> want) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(want[i]))
          << "element " << i << ": " << got[i] << " against " << want[i];
    }
  }

  const Kernels& kernels_ = cpu_kernels();
};

// Through volatile, so that the compiler neither vectorises nor fuses.
float rounded(float value) {
  const volatile float kept = value;
  return kept;
}

TEST_P(KernelsTest, Add) {
  auto sum = numbers(1);
  auto value = numbers(2);
  auto want = sum;
  for (std::size_t i = GetParam().skew; i < want.size(); ++i) want[i] = rounded(want[i] + value[i]);
  kernels_.add(skewed(sum), skewed(value));
  expect_bits(sum, want);
}

TEST_P(KernelsTest, AddToItself) {
  auto sum = numbers(1);
  auto want = sum;
  for (std::size_t i = GetParam().skew; i < want.size(); ++i) want[i] = rounded(want[i] * 2);
  kernels_.add(skewed(sum), skewed(sum));
  expect_bits(sum, want);
}

TEST_P(KernelsTest, Scale) {
  auto value = numbers(3);
  auto want = value;
  const float factor = 1.0F / 3.0F;
  for (std::size_t i = GetParam().skew; i < want.size(); ++i) want[i] = rounded(want[i] * factor);
  kernels_.scale(skewed(value), factor);
  expect_bits(value, want);
}

TEST_P(KernelsTest, Divide) {
  auto value = numbers(3);
  auto want = value;
  for (std::size_t i = GetParam().skew; i < want.size(); ++i) want[i] = rounded(want[i] / 3.0F);
  kernels_.divide(skewed(value), 3.0F);
  expect_bits(value, want);
}

TEST_P(KernelsTest, Sgd) {
  auto w = numbers(4);
  auto g = numbers(5);
  auto v = numbers(6);
  auto want_w = w;
  auto want_v = v;
  const SgdStep step = {0.01F, 0.9F, 5e-4F};
  for (std::size_t i = GetParam().skew; i < w.size(); ++i) {
    const float decayed = rounded(g[i] + rounded(step.weight_decay * want_w[i]));
    want_v[i] = rounded(rounded(step.momentum * want_v[i]) + rounded(step.learning_rate * decayed));
    want_w[i] = rounded(want_w[i] - want_v[i]);
  }
  kernels_.sgd(skewed(w), skewed(g), skewed(v), step);
  expect_bits(w, want_w);
  expect_bits(v, want_v);
}

TEST_P(KernelsTest, Adagrad) {
  auto w = numbers(7);
  auto g = numbers(8);
  std::vector<float> a(w.size(), 0.1F);
  auto want_w = w;
  auto want_a = a;
  for (std::size_t i = GetParam().skew; i < w.size(); ++i) {
    want_a[i] = rounded(want_a[i] + rounded(g[i] * g[i]));
    const float quotient = rounded(rounded(0.05F * g[i]) / rounded(std::sqrt(want_a[i])));
    want_w[i] = rounded(want_w[i] - quotient);
  }
  kernels_.adagrad(skewed(w), skewed(g), skewed(a), 0.05F);
  expect_bits(w, want_w);
  expect_bits(a, want_a);
}

// The two bytes of an element as they lie in memory.
std::uint32_t high_byte_first(const std::uint16_t& element) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(&element);
  return static_cast<std::uint32_t>(bytes[0]) << 24 | static_cast<std::uint32_t>(bytes[1]) << 16;
}

TEST_P(KernelsTest, TruncateAndWiden) {
  auto value = numbers(9);
  std::vector<std::uint16_t> upper(value.size(), 0xdead);
  auto want = value;
  kernels_.truncate(std::span<std::uint16_t>(upper).subspan(GetParam().skew), skewed(value));
  for (std::size_t i = 0; i < GetParam().skew; ++i) EXPECT_EQ(upper[i], 0xdead);
  for (std::size_t i = GetParam().skew; i < want.size(); ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(want[i]) & 0xffff0000U;
    EXPECT_EQ(high_byte_first(upper[i]), bits);
    want[i] = std::bit_cast<float>(bits);
    EXPECT_LE(std::abs(want[i]), std::abs(value[i]));
  }
  kernels_.widen(skewed(value), std::span<const std::uint16_t>(upper).subspan(GetParam().skew));
  expect_bits(value, want);
}

TEST_P(KernelsTest, AddWidened) {
  auto sum = numbers(10);
  auto value = numbers(11);
  std::vector<std::uint16_t> upper(value.size());
  kernels_.truncate(upper, value);
  auto want = sum;
  for (std::size_t i = GetParam().skew; i < want.size(); ++i) {
    want[i] = rounded(want[i] + std::bit_cast<float>(high_byte_first(upper[i])));
  }
  kernels_.add_widened(skewed(sum), std::span<const std::uint16_t>(upper).subspan(GetParam().skew));
  expect_bits(sum, want);
}

TEST_P(KernelsTest, AddTruncated) {
  auto first = numbers(12);
  auto second = numbers(13);
  std::vector<std::uint16_t> sum(first.size());
  std::vector<std::uint16_t> value(first.size());
  kernels_.truncate(sum, first);
  kernels_.truncate(value, second);
  const std::vector<std::uint16_t> before = sum;
  kernels_.add_truncated(std::span<std::uint16_t>(sum).subspan(GetParam().skew),
                         std::span<const std::uint16_t>(value).subspan(GetParam().skew));
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const float exact = rounded(std::bit_cast<float>(high_byte_first(before[i])) +
                                std::bit_cast<float>(high_byte_first(value[i])));
    const std::uint32_t want = i < GetParam().skew
                                   ? high_byte_first(before[i])
                                   : std::bit_cast<std::uint32_t>(exact) & 0xffff0000U;
    EXPECT_EQ(high_byte_first(sum[i]), want) << "element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(LengthsAndAlignments, KernelsTest,
                         testing::Values(Case{0, 0}, Case{1, 0}, Case{1, 3}, Case{7, 1}, Case{8, 0},
                                         Case{15, 2}, Case{16, 0}, Case{17, 5}, Case{31, 7},
                                         Case{33, 1}, Case{64, 0}, Case{1000, 3}, Case{4097, 9}),
                         [](const auto& tested) {
                           return std::to_string(tested.param.length) + "_from_" +
                                  std::to_string(tested.param.skew);
                         });

TEST(CountedKernels, TouchNothing) {
  // Addresses that cannot be touched.
  auto* nowhere = reinterpret_cast<float*>(std::uintptr_t{4096});
  const std::span<float> span(nowhere, 100);
  const std::span<std::uint16_t> upper(reinterpret_cast<std::uint16_t*>(nowhere), 100);
  const Kernels& kernels = counted_kernels();
  kernels.add(span, span);
  kernels.scale(span, 2);
  kernels.sgd(span, span, span, {});
  kernels.adagrad(span, span, span, 1);
  kernels.truncate(upper, span);
  kernels.widen(span, upper);
  kernels.add_widened(span, upper);
  kernels.add_truncated(upper, upper);
}

TEST(KernelsDeathTest, UnequalSizesAreOurBug) {
  std::vector<float> five(5);
  std::vector<float> six(6);
  EXPECT_DEATH(cpu_kernels().add(five, six), "5 and 6");
}

}  // namespace
}  // namespace dlobd::compute
