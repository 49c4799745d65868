#include "batches/batch_rule.h"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace dlobd::batches {
namespace {

base::Failure refuse(std::string message) {
  return base::fail(base::ErrorKind::invalid_argument, std::move(message));
}

base::Result<BatchSizes> fit(std::uint64_t local, int ranks, std::uint64_t records) {
  // floor(n / N) is the smallest of the shards.
  const std::uint64_t smallest = records / static_cast<std::uint64_t>(ranks);
  if (local > smallest)
    return refuse(
        fmt::format("local batch size is larger than a shard: batches of {}, {} records "
                    "over {} ranks leave {} to the smallest",
                    local, records, ranks, smallest));
  return BatchSizes{local, local * static_cast<std::uint64_t>(ranks)};
}

base::Result<BatchSizes> split(BatchRule rule, std::uint64_t global, int ranks,
                               std::uint64_t records) {
  const auto count = static_cast<std::uint64_t>(ranks);
  if (global % count != 0)
    return refuse(
        fmt::format("global batch size is not divisible by the ranks (batch rule {}): {} "
                    "samples over {} ranks; {} would be",
                    name(rule), global, ranks, (global / count + 1) * count));
  return fit(global / count, ranks, records);
}

}  // namespace

std::string_view name(BatchRule rule) {
  switch (rule) {
    case BatchRule::per_device: return "per_device";
    case BatchRule::per_worker: return "per_worker";
    case BatchRule::global: return "global";
  }
  return "unknown";
}

base::Result<BatchSizes> batch_sizes(BatchRule rule, std::optional<std::int64_t> local,
                                     std::optional<std::int64_t> global, int ranks,
                                     std::uint64_t records) {
  if (ranks <= 0) return refuse(fmt::format("number of ranks must be positive: {}", ranks));
  if (local && global)
    return refuse(
        fmt::format("give the local or the global batch size, not both (the other is "
                    "derived): local {}, global {}",
                    *local, *global));
  if (!local && !global) return refuse("no batch size: give the local or the global one");
  if (local && *local <= 0)
    return refuse(fmt::format("local batch size must be positive: {}", *local));
  if (global && *global <= 0)
    return refuse(fmt::format("global batch size must be positive: {}", *global));
  if (local) return fit(static_cast<std::uint64_t>(*local), ranks, records);
  return split(rule, static_cast<std::uint64_t>(*global), ranks, records);
}

}  // namespace dlobd::batches
