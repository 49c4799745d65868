// How an arena is cut: into one slice per rank, and into buckets for the all-reduce.
//
//   slice(P, N, r)   rank r's of N contiguous parts of P elements:
//                    [floor(r P / N), floor((r+1) P / N)). Parts differ by at most one element;
//                    with P < N some are empty.
//   front_loaded_slice(P, N, r)
//                    likewise, but the longer parts come first: the first P mod N have one element
//                    more than the others' floor(P / N).
//   buckets(views)   contiguous ranges of whole parameters in backward order, the last layer first,
//                    each closed as soon as it holds at least `bucket_bytes`.
#pragma once

#include <cstddef>
#include <vector>

#include "compute/arena.h"

namespace dlobd::exchange {

// CaffeOnSpark's slices, and the chunks of a ring.
compute::Range slice(std::size_t elements, int parts, int part);

// BigDL's slices.
compute::Range front_loaded_slice(std::size_t elements, int parts, int part);

struct Bucket {
  compute::Range range;
  std::vector<std::size_t> views;  // indices into the arena's views
};

std::vector<Bucket> buckets(const std::vector<compute::ParameterView>& views,
                            std::size_t bucket_bytes);

// n mod `world_size`, for n that may be negative.
inline int wrap(int n, int world_size) {
  return ((n % world_size) + world_size) % world_size;
}

}  // namespace dlobd::exchange
