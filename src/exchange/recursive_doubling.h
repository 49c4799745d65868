// Recursive-doubling all-reduce of one range: few rounds for small ranges. recursive_doubling.cpp
// opens with the picture. Errors: the endpoint's; corrupt_data for a message that is not due. On
// the loop's thread.
#pragma once

#include <cstddef>

#include "compute/arena.h"
#include "exchange/lanes.h"

namespace dlobd::exchange {

// How N ranks pair up: `ranks`, a power of two, double; the others fold in before and out after.
struct Doubling {
  int rounds = 0;
  int ranks = 1;   // 2^rounds, the largest power of two up to N
  int extras = 0;  // N - ranks
};
Doubling doubling(int world_size);

struct DoublingLayout {
  std::size_t base = 0;  // of its part of the scratch memory, elements
  std::size_t slot = 0;  // elements of one slot: the largest range
  bool odd = false;      // of calls so far: which half of the double buffer this call uses
};

// Elements of all slots for ranges of at most `largest` elements.
std::size_t doubling_scratch(std::size_t largest, int world_size);

// data[range] becomes factor times the sum over all ranks. `lanes` outlives the call.
base::Task<base::Result<void>> recursive_doubling(Lanes& lanes, compute::Range range, float factor,
                                                  DoublingLayout layout);

}  // namespace dlobd::exchange
