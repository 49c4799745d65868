// Ring all-reduce of one range: little traffic for large ranges. ring.cpp opens with the picture.
// Errors: the endpoint's; corrupt_data for a message that is not due. On the loop's thread.
#pragma once

#include <cstddef>

#include "compute/arena.h"
#include "exchange/lanes.h"

namespace dlobd::exchange {

struct RingLayout {
  std::size_t segment = 0;  // elements of one message, at most
  std::size_t base = 0;     // of the ring's part of the scratch memory, elements
  std::size_t slot = 0;     // elements of one hop's slot: the largest chunk of the largest range
};

// Elements of one slot, and of all N-1, for ranges of at most `largest` elements.
std::size_t ring_slot(std::size_t largest, int world_size);
std::size_t ring_scratch(std::size_t largest, int world_size);

// Messages of a chunk: one for each segment; one, of no bytes, for an empty chunk.
std::size_t ring_messages(std::size_t chunk, std::size_t segment);

// data[range] becomes factor times the sum over all ranks. `lanes` outlives the call.
base::Task<base::Result<void>> ring_all_reduce(Lanes& lanes, compute::Range range, float factor,
                                               RingLayout layout);

}  // namespace dlobd::exchange
