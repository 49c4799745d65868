// The arithmetic of batch sizes. A rule says which batch size stays as it is when the number of
// ranks changes: that of one device, that of one worker (one device per rank: the same) or the
// global one. Either size may be given under any rule; the other is derived. global = local *
// ranks, exactly.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"

namespace dlobd::batches {

// Which batch size stays as it is when the number of ranks changes.
enum class BatchRule { per_device, per_worker, global };

std::string_view name(BatchRule rule);

struct BatchSizes {
  std::uint64_t local = 0;   // samples of one rank's step
  std::uint64_t global = 0;  // samples of all ranks' step
  friend bool operator==(const BatchSizes&, const BatchSizes&) = default;
};

// Exactly one of `local` and `global` is given. `records` is what all ranks hold together.
// Errors (invalid_argument): none or both given; zero or negative; a global size that the ranks do
// not divide; a local size larger than the smallest shard.
base::Result<BatchSizes> batch_sizes(BatchRule rule, std::optional<std::int64_t> local,
                                     std::optional<std::int64_t> global, int ranks,
                                     std::uint64_t records);

}  // namespace dlobd::batches
