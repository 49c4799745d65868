// What 16-bit elements with error feedback must arrive at, in plain loops: which sums are rounded,
// by whom, and who owes what that cost. owed[r][i]: by rank r to element i of its next gradient.
#pragma once

#include <cstddef>
#include <vector>

#include "compute/arena.h"
#include "compute/wire_element.h"

namespace dlobd::exchange {

// The nearest number of that element (toward zero: truncated16), finite where `value` is. By
// arithmetic in double precision, not by bits.
float plain_rounded(compute::WireElement element, float value);

// The sum over all ranks of what they give to element i and owe to it, round the ring from rank
// `first` on: every rank rounds once, the last one the whole.
float rounded_round_the_ring(compute::WireElement element,
                             const std::vector<std::vector<float>>& values, std::size_t i,
                             int first, std::vector<std::vector<float>>& owed);

// factor times the sum over all ranks of what they give and owe, in the order of either algorithm:
// ring, recursive doubling. For two ranks and more.
std::vector<float> rounded_ring_sum(compute::WireElement element,
                                    const std::vector<std::vector<float>>& values,
                                    compute::Range range, float factor,
                                    std::vector<std::vector<float>>& owed);
std::vector<float> rounded_doubling_sum(compute::WireElement element,
                                        const std::vector<std::vector<float>>& values,
                                        compute::Range range, float factor,
                                        std::vector<std::vector<float>>& owed);

}  // namespace dlobd::exchange
