// How an overlapped sharded push cuts its messages: a bucket of whole parameters, as it becomes
// ready in the backward pass, is cut where the owner changes and then into pieces of a size that
// keeps adding, updating and sending all busy. Every rank finds the same list.
//
//   buckets    [  fc2 fc1       ][ conv2 conv1 ]      in backward order, of at least bucket_bytes
//   slices     [  3  |  2  |  1    |        0  ]      by owner
//   pieces     [  3  |  2  |  1  | 1 |      0  ]      a long one is cut again
#pragma once

#include <cstddef>
#include <vector>

#include "compute/arena.h"
#include "exchange/slices.h"

namespace dlobd::exchange {

struct ShardPushOptions {
  bool front_loaded = true;   // BigDL's slices; otherwise CaffeOnSpark's
  bool in_rank_order = true;  // gradients are added as 0 + 1 + ...; otherwise from the owner on
  bool scale_first = false;   // gradients are multiplied by 1/N before they travel, not the sum
  std::size_t bucket_bytes = 64 * 1024;     // small parameters travel together
  std::size_t piece_elements = 256 * 1024;  // of one message, at most
};

// Rank `owner`'s slice of `elements` parameters.
compute::Range shard_of(const ShardPushOptions& options, std::size_t elements, int workers,
                        int owner);

struct Piece {
  compute::Range range;  // of the arena
  int owner = 0;
  std::size_t bucket = 0;
};

// In the order of the buckets; within one, by owner and offset. Owners of nothing have none.
std::vector<Piece> pieces_of(const ShardPushOptions& options,
                             const std::vector<compute::ParameterView>& views, int workers);

// The ranks in the order in which `owner` adds their gradients.
std::vector<int> order_of_addition(const ShardPushOptions& options, int workers, int owner);

}  // namespace dlobd::exchange
