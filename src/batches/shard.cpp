#include "batches/shard.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/nearest.h"

namespace dlobd::batches {
namespace {

// floor(rank * records / world_size): the product may need more than 64 bits.
std::uint64_t boundary(std::uint64_t records, int rank, int world_size) {
  const auto product = static_cast<unsigned __int128>(records) * static_cast<unsigned>(rank);
  return static_cast<std::uint64_t>(product / static_cast<unsigned>(world_size));
}

}  // namespace

Shard shard_of(std::uint64_t records, int rank, int world_size) {
  CHECK(rank >= 0 && rank < world_size, "rank {} of {}", rank, world_size);
  const std::uint64_t first = boundary(records, rank, world_size);
  return {first, boundary(records, rank + 1, world_size) - first};
}

std::vector<std::uint64_t> shard_sizes(std::uint64_t records, int world_size) {
  std::vector<std::uint64_t> sizes;
  for (int rank = 0; rank < world_size; ++rank)
    sizes.push_back(shard_of(records, rank, world_size).count);
  return sizes;
}

std::string_view name(Uneven uneven) {
  return uneven == Uneven::drop_last ? "drop_last" : "pad";
}

base::Result<Uneven> parse_uneven(std::string_view text) {
  for (const Uneven uneven : {Uneven::drop_last, Uneven::pad}) {
    if (text == name(uneven)) return uneven;
  }
  return base::fail(
      base::ErrorKind::invalid_argument,
      fmt::format("unknown rule for uneven shards: {}; {}", text,
                  base::suggestion(text, std::vector<std::string>{"drop_last", "pad"})));
}

base::Result<EpochPlan> agree_on_steps(std::span<const std::uint64_t> shard_sizes,
                                       std::uint64_t local_batch_size, Uneven uneven) {
  CHECK(!shard_sizes.empty(), "no ranks");
  CHECK(local_batch_size > 0, "batches of no samples");
  const auto [smallest, largest] = std::minmax_element(shard_sizes.begin(), shard_sizes.end());
  const auto rank = smallest - shard_sizes.begin();
  EpochPlan plan;
  if (uneven == Uneven::drop_last) {
    plan.steps = *smallest / local_batch_size;
    if (plan.steps == 0)
      return base::fail(
          base::ErrorKind::invalid_argument,
          fmt::format("local batch size is larger than a shard: batches of {}, rank {} "
                      "has {} samples",
                      local_batch_size, rank, *smallest));
  } else {
    if (*smallest == 0)
      return base::fail(base::ErrorKind::invalid_argument,
                        fmt::format("shard is empty and cannot be padded: rank {} of {}", rank,
                                    shard_sizes.size()));
    plan.steps = *largest / local_batch_size + (*largest % local_batch_size == 0 ? 0 : 1);
  }
  const std::uint64_t seen = plan.steps * local_batch_size;
  for (const std::uint64_t size : shard_sizes) {
    plan.samples_seen.push_back(seen);
    if (seen < size) plan.dropped += size - seen;
    if (seen > size) plan.repeated += seen - size;
  }
  return plan;
}

}  // namespace dlobd::batches
