#include "exchange/oracle_wire.h"

#include <algorithm>
#include <cmath>

#include "exchange/recursive_doubling.h"
#include "exchange/slices.h"

namespace dlobd::exchange {
namespace {

using compute::WireElement;

// `value` as it travels; the sender owes the rest.
float sent(WireElement element, float value, float& owed) {
  const float rounded = plain_rounded(element, value);
  owed += value - rounded;
  return rounded;
}

std::size_t at(int rank) {
  return static_cast<std::size_t>(rank);
}

}  // namespace

float plain_rounded(WireElement element, float value) {
  if (element == WireElement::float32 || value == 0 || !std::isfinite(value)) return value;
  const bool half = element == WireElement::float16;
  const int fraction_bits = half ? 10 : 7;
  const int exponent = std::max(std::ilogb(value), half ? -14 : -126);
  const double step = std::ldexp(1.0, exponent - fraction_bits);
  const double largest = half ? 65504.0 : 0x1.fep+127;
  const double steps = static_cast<double>(value) / step;
  const double rounded =
      (element == WireElement::truncated16 ? std::trunc(steps) : std::nearbyint(steps)) * step;
  return static_cast<float>(std::clamp(rounded, -largest, largest));
}

float rounded_round_the_ring(WireElement element, const std::vector<std::vector<float>>& values,
                             std::size_t i, int first, std::vector<std::vector<float>>& owed) {
  const int world_size = static_cast<int>(values.size());
  float so_far = 0;
  for (int hop = 0; hop < world_size; ++hop) {
    const auto rank = at((first + hop) % world_size);
    const float given = values[rank][i] + owed[rank][i];
    owed[rank][i] = 0;
    so_far = sent(element, so_far + given, owed[rank][i]);
  }
  return so_far;
}

std::vector<float> rounded_ring_sum(WireElement element,
                                    const std::vector<std::vector<float>>& values,
                                    compute::Range range, float factor,
                                    std::vector<std::vector<float>>& owed) {
  const int world_size = static_cast<int>(values.size());
  std::vector<float> sum(range.size());
  for (int chunk = 0; chunk < world_size; ++chunk) {
    const compute::Range part = slice(range.size(), world_size, chunk);
    for (std::size_t i = part.begin; i < part.end; ++i) {
      sum[i] = rounded_round_the_ring(element, values, range.begin + i, chunk, owed) * factor;
    }
  }
  return sum;
}

std::vector<float> rounded_doubling_sum(WireElement element,
                                        const std::vector<std::vector<float>>& values,
                                        compute::Range range, float factor,
                                        std::vector<std::vector<float>>& owed) {
  const Doubling pairs = doubling(static_cast<int>(values.size()));
  std::vector<float> sum(range.size());
  for (std::size_t i = 0; i < range.size(); ++i) {
    const std::size_t element_at = range.begin + i;
    std::vector<float> held(values.size());
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      held[rank] = values[rank][element_at] + owed[rank][element_at];
      owed[rank][element_at] = 0;
    }
    for (int rank = 0; rank < pairs.extras; ++rank) {
      const std::size_t extra = at(rank + pairs.ranks);
      held[at(rank)] += sent(element, held[extra], owed[extra][element_at]);
    }
    for (int distance = 1; distance < pairs.ranks; distance *= 2) {
      std::vector<float> moved(at(pairs.ranks));
      for (int rank = 0; rank < pairs.ranks; ++rank) {
        float nobodys = 0;
        moved[at(rank)] = sent(element, held[at(rank)],
                               rank % distance == 0 ? owed[at(rank)][element_at] : nobodys);
      }
      for (int rank = 0; rank < pairs.ranks; ++rank) {
        held[at(rank)] = moved[at(rank)] + moved[at(rank ^ distance)];
      }
    }
    if (pairs.extras > 0) held[0] = sent(element, held[0], owed[0][element_at]);
    sum[i] = held[0] * factor;
  }
  return sum;
}

}  // namespace dlobd::exchange
