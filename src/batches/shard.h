// How the records of an epoch are shared among ranks, and how many steps all ranks make of it. Rank
// r of N holds the records [floor(r n / N), floor((r + 1) n / N)). Shards may differ by one record,
// and a batch may not divide them: before the first step every rank agrees on one number of steps,
// by dropping what is left over, or by wrapping around its own shard. Pure functions: each rank
// that knows the shards' sizes finds the same answer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dlobd::batches {

struct Shard {
  std::uint64_t first = 0;  // record
  std::uint64_t count = 0;
  friend bool operator==(const Shard&, const Shard&) = default;
};

// 0 <= rank < world_size.
Shard shard_of(std::uint64_t records, int rank, int world_size);

// The sizes of all shards, by rank.
std::vector<std::uint64_t> shard_sizes(std::uint64_t records, int world_size);

enum class Uneven { drop_last, pad };

std::string_view name(Uneven uneven);
// invalid_argument with the valid names otherwise.
base::Result<Uneven> parse_uneven(std::string_view text);

struct EpochPlan {
  std::uint64_t steps = 0;                  // of each rank
  std::vector<std::uint64_t> samples_seen;  // by rank, in one epoch; repeats counted
  std::uint64_t dropped = 0;                // samples of all ranks that no step sees (drop_last)
  std::uint64_t repeated = 0;               // samples of all ranks seen once more (pad)
};

// drop_last: the fewest full batches of any rank; pad: the most batches of any rank, the last one
// filled. Errors (invalid_argument): an empty shard under pad, fewer than one step under drop_last.
base::Result<EpochPlan> agree_on_steps(std::span<const std::uint64_t> shard_sizes,
                                       std::uint64_t local_batch_size, Uneven uneven);

}  // namespace dlobd::batches
