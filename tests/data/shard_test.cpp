// Shards, agreed steps and the arithmetic of batch sizes.
#include "batches/shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "batches/batch_rule.h"

namespace dlobd::batches {
namespace {

using base::ErrorKind;

TEST(Shard, shards_follow_each_other_and_leave_nothing_out) {
  for (const std::uint64_t records : {0ULL, 1ULL, 2ULL, 7ULL, 8ULL, 100ULL, 60000ULL, 60001ULL}) {
    for (int world_size = 1; world_size <= 8; ++world_size) {
      std::uint64_t next = 0;
      std::uint64_t smallest = records;
      std::uint64_t largest = 0;
      for (int rank = 0; rank < world_size; ++rank) {
        const Shard shard = shard_of(records, rank, world_size);
        EXPECT_EQ(shard.first, next);
        next += shard.count;
        smallest = std::min(smallest, shard.count);
        largest = std::max(largest, shard.count);
      }
      EXPECT_EQ(next, records);
      EXPECT_LE(largest - smallest, 1U);
      EXPECT_EQ(smallest, records / static_cast<std::uint64_t>(world_size));
    }
  }
}

TEST(Shard, boundaries_do_not_overflow) {
  const std::uint64_t records = 0xffff'ffff'ffff'ffffULL;
  const Shard last = shard_of(records, 6, 7);
  EXPECT_EQ(last.first + last.count, records);
  EXPECT_EQ(shard_of(records, 1, 3), (Shard{records / 3, records / 3}));
}

TEST(AgreeOnSteps, drop_last_takes_the_fewest_full_batches) {
  const std::vector<std::uint64_t> sizes{10, 11, 8};
  const auto plan = agree_on_steps(sizes, 4, Uneven::drop_last);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->steps, 2U);
  EXPECT_EQ(plan->samples_seen, (std::vector<std::uint64_t>{8, 8, 8}));
  EXPECT_EQ(plan->dropped, 5U);
  EXPECT_EQ(plan->repeated, 0U);
}

TEST(AgreeOnSteps, pad_takes_the_most_batches) {
  const std::vector<std::uint64_t> sizes{10, 13, 1};
  const auto plan = agree_on_steps(sizes, 4, Uneven::pad);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->steps, 4U);
  EXPECT_EQ(plan->samples_seen, (std::vector<std::uint64_t>{16, 16, 16}));
  EXPECT_EQ(plan->dropped, 0U);
  EXPECT_EQ(plan->repeated, 6U + 3U + 15U);
}

TEST(AgreeOnSteps, even_shards_lose_and_repeat_nothing) {
  const std::vector<std::uint64_t> sizes{12, 12};
  for (const Uneven uneven : {Uneven::drop_last, Uneven::pad}) {
    const auto plan = agree_on_steps(sizes, 4, uneven);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->steps, 3U);
    EXPECT_EQ(plan->dropped + plan->repeated, 0U);
  }
}

TEST(AgreeOnSteps, refuses_what_gives_no_step) {
  const std::vector<std::uint64_t> sizes{5, 3};
  const auto none = agree_on_steps(sizes, 4, Uneven::drop_last);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message,
            "local batch size is larger than a shard: batches of 4, rank 1 has 3 samples");
  const std::vector<std::uint64_t> empty{5, 0};
  const auto padded = agree_on_steps(empty, 4, Uneven::pad);
  ASSERT_FALSE(padded);
  EXPECT_EQ(padded.error().message, "shard is empty and cannot be padded: rank 1 of 2");
}

TEST(Uneven, is_spelled_as_on_the_command_line) {
  EXPECT_EQ(parse_uneven("drop_last"), Uneven::drop_last);
  EXPECT_EQ(parse_uneven("pad"), Uneven::pad);
  const auto other = parse_uneven("truncate");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().message,
            "unknown rule for uneven shards: truncate; there are drop_last, pad");
}

constexpr BatchRule kRules[] = {BatchRule::per_device, BatchRule::per_worker, BatchRule::global};

TEST(BatchSizes, either_size_gives_the_other_under_any_rule) {
  for (const BatchRule rule : kRules) {
    EXPECT_EQ(batch_sizes(rule, 32, std::nullopt, 4, 1000), (BatchSizes{32, 128}));
    EXPECT_EQ(batch_sizes(rule, std::nullopt, 128, 4, 1000), (BatchSizes{32, 128}));
    EXPECT_EQ(batch_sizes(rule, 1, std::nullopt, 1, 1), (BatchSizes{1, 1}));
  }
}

TEST(BatchSizes, a_shard_may_be_one_batch) {
  EXPECT_EQ(batch_sizes(BatchRule::global, std::nullopt, 100, 2, 101), (BatchSizes{50, 100}));
}

struct Refusal {
  std::optional<std::int64_t> local;
  std::optional<std::int64_t> global;
  int ranks;
  std::uint64_t records;
  std::string message;
};

TEST(BatchSizes, refuses_what_cannot_be) {
  const std::vector<Refusal> refusals{
      {0, std::nullopt, 2, 100, "local batch size must be positive: 0"},
      {-8, std::nullopt, 2, 100, "local batch size must be positive: -8"},
      {std::nullopt, 0, 2, 100, "global batch size must be positive: 0"},
      {std::nullopt, -64, 2, 100, "global batch size must be positive: -64"},
      {std::nullopt, 64, 3, 100,
       "global batch size is not divisible by the ranks (batch rule global): 64 samples over 3 "
       "ranks; 66 would be"},
      {51, std::nullopt, 2, 101,
       "local batch size is larger than a shard: batches of 51, 101 records over 2 ranks leave 50 "
       "to the smallest"},
      {std::nullopt, 102, 2, 101,
       "local batch size is larger than a shard: batches of 51, 101 records over 2 ranks leave 50 "
       "to the smallest"},
      {std::numeric_limits<std::int64_t>::max(), std::nullopt, 4, 100,
       "local batch size is larger than a shard: batches of 9223372036854775807, 100 records over "
       "4 ranks leave 25 to the smallest"},
      {std::nullopt, std::nullopt, 2, 100, "no batch size: give the local or the global one"},
      {8, 16, 2, 100,
       "give the local or the global batch size, not both (the other is derived): local 8, global "
       "16"},
      {8, std::nullopt, 0, 100, "number of ranks must be positive: 0"},
  };
  for (const Refusal& refusal : refusals) {
    const auto sizes = batch_sizes(BatchRule::global, refusal.local, refusal.global, refusal.ranks,
                                   refusal.records);
    ASSERT_FALSE(sizes) << refusal.message;
    EXPECT_EQ(sizes.error().message, refusal.message);
    EXPECT_EQ(sizes.error().kind, ErrorKind::invalid_argument);
  }
}

}  // namespace
}  // namespace dlobd::batches
