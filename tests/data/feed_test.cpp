// The feeds: every sample once over ranks and epoch, the same order for the same seed, and an epoch
// that is resumed goes on as it would have.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "batches/memory_source.h"
#include "batches/samples.h"
#include "batches/sequential_source.h"
#include "batches/shard.h"
#include "data/feed_fixture.h"
#include "data/idx_fixture.h"
#include "records/idx.h"
#include "storage/faulty.h"
#include "storage/memory.h"

namespace dlobd::batches {
namespace {

using dlobd::testing::batches_of;
using dlobd::testing::idx_images;
using dlobd::testing::idx_labels;
using dlobd::testing::numbered_samples;
using dlobd::testing::record_of;

std::vector<std::uint64_t> records_of(Source& source, std::uint64_t epoch,
                                      std::uint64_t first_batch = 0) {
  std::vector<std::uint64_t> records;
  for (const Batch& batch : batches_of(source, epoch, first_batch)) {
    for (std::size_t i = 0; i < batch.size(); ++i) records.push_back(record_of(batch, i));
  }
  return records;
}

class Loading : public ::testing::Test {
 protected:
  void put(std::uint32_t records) {
    store_.put("images", idx_images(records));
    store_.put("labels", idx_labels(records));
  }
  std::unique_ptr<records::Reader> reader(storage::Store& store) {
    auto opened = records::open_idx(store, {"images"}, "labels", 10);
    EXPECT_TRUE(opened);
    return std::move(*opened);
  }

  storage::MemoryStore store_;
};

TEST_F(Loading, holds_the_shard_and_nothing_else) {
  put(10'001);
  const auto from = reader(store_);
  for (int rank = 0; rank < 3; ++rank) {
    const Shard shard = shard_of(10'001, rank, 3);
    const auto samples = load(*from, shard);
    ASSERT_TRUE(samples) << samples.error().message;
    ASSERT_EQ(samples->count(), shard.count);
    ASSERT_EQ(samples->pixels.size(), shard.count * 12);
    EXPECT_EQ(samples->pixels.capacity(), shard.count * 12);
    for (std::uint64_t i = 0; i < shard.count; ++i) {
      const std::uint64_t record = shard.first + i;
      ASSERT_EQ(samples->labels[i], dlobd::testing::idx_label(record));
      for (std::uint64_t pixel = 0; pixel < 12; ++pixel)
        ASSERT_EQ(samples->pixels[i * 12 + pixel], dlobd::testing::idx_pixel(record, pixel));
    }
  }
}

TEST_F(Loading, refuses_a_shard_that_is_not_there) {
  put(10);
  const auto from = reader(store_);
  const auto samples = load(*from, {8, 3});
  ASSERT_FALSE(samples);
  EXPECT_EQ(samples.error().message, "shard reaches beyond its records: records 8 to 11 of 10");
  EXPECT_TRUE(load(*from, {10, 0}));
}

TEST_F(Loading, passes_on_a_failing_read) {
  put(10'000);
  storage::FaultyStore faulty(store_,
                              {{storage::Operation::read, 5, storage::Fault::Effect::fail}});
  const auto from = reader(faulty);
  const auto samples = load(*from, {0, 10'000});
  ASSERT_FALSE(samples);
  EXPECT_EQ(samples.error().message, "fault set for this test: read 5: images");
}

TEST(Gather, keeps_pixels_with_their_labels) {
  const Samples samples = numbered_samples({100, 50});
  const std::vector<std::uint32_t> numbers{49, 0, 7, 7};
  const Batch batch = gather(samples, numbers);
  ASSERT_EQ(batch.size(), 4U);
  EXPECT_EQ(batch.shape, samples.shape);
  EXPECT_EQ(batch.pixels.size(), 4 * samples.shape.bytes());
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(record_of(batch, i), 100U + numbers[i]);
    EXPECT_EQ(batch.labels[i], static_cast<std::int64_t>((100 + numbers[i]) % 10));
  }
}

// How often each record is seen in one epoch of N ranks.
std::map<std::uint64_t, int> seen(std::uint64_t records, int world_size, std::uint64_t batch_size,
                                  Uneven uneven, Order order, std::uint64_t epoch) {
  const auto plan = agree_on_steps(shard_sizes(records, world_size), batch_size, uneven);
  EXPECT_TRUE(plan);
  std::map<std::uint64_t, int> times;
  for (int rank = 0; rank < world_size; ++rank) {
    const Shard shard = shard_of(records, rank, world_size);
    MemorySource source(numbered_samples(shard), {batch_size, plan->steps, order, 42, rank});
    const auto batches = batches_of(source, epoch);
    EXPECT_EQ(batches.size(), plan->steps);
    std::uint64_t samples = 0;
    for (const Batch& batch : batches) {
      EXPECT_EQ(batch.size(), batch_size);
      samples += batch.size();
      for (std::size_t i = 0; i < batch.size(); ++i) {
        const std::uint64_t record = record_of(batch, i);
        EXPECT_GE(record, shard.first);
        EXPECT_LT(record, shard.first + shard.count);
        ++times[record];
      }
    }
    EXPECT_EQ(samples, plan->samples_seen[static_cast<std::size_t>(rank)]);
  }
  return times;
}

TEST(MemorySource, every_sample_exactly_once_where_batches_divide_the_shards) {
  for (int world_size = 1; world_size <= 8; ++world_size) {
    const std::uint64_t records = static_cast<std::uint64_t>(world_size) * 24;
    for (const Order order : {Order::shuffled, Order::as_stored}) {
      for (const Uneven uneven : {Uneven::drop_last, Uneven::pad}) {
        const auto times = seen(records, world_size, 8, uneven, order, 3);
        EXPECT_EQ(times.size(), records);
        for (const auto& [record, count] : times) EXPECT_EQ(count, 1) << record;
      }
    }
  }
}

TEST(MemorySource, uneven_shards_drop_or_repeat_as_many_as_the_plan_says) {
  for (int world_size = 1; world_size <= 8; ++world_size) {
    for (const std::uint64_t records : {97ULL, 100ULL, 131ULL}) {
      for (const std::uint64_t batch_size : {1ULL, 5ULL, 12ULL}) {
        const auto sizes = shard_sizes(records, world_size);
        const auto dropping = agree_on_steps(sizes, batch_size, Uneven::drop_last);
        const auto padding = agree_on_steps(sizes, batch_size, Uneven::pad);
        ASSERT_TRUE(dropping && padding);
        const auto fewer =
            seen(records, world_size, batch_size, Uneven::drop_last, Order::shuffled, 1);
        for (const auto& [record, count] : fewer) EXPECT_EQ(count, 1) << record;
        EXPECT_EQ(fewer.size() + dropping->dropped, records);

        const auto more = seen(records, world_size, batch_size, Uneven::pad, Order::shuffled, 1);
        EXPECT_EQ(more.size(), records);
        std::uint64_t repeated = 0;
        for (const auto& [record, count] : more) {
          EXPECT_LE(count, 2) << record;
          repeated += static_cast<std::uint64_t>(count) - 1;
        }
        EXPECT_EQ(repeated, padding->repeated);
      }
    }
  }
}

TEST(MemorySource, a_batch_larger_than_the_shard_wraps_more_than_once) {
  MemorySource source(numbered_samples({0, 3}), {8, 1, Order::as_stored, 0, 0});
  EXPECT_EQ(records_of(source, 0), (std::vector<std::uint64_t>{0, 1, 2, 0, 1, 2, 0, 1}));
}

TEST(MemorySource, the_order_is_a_function_of_seed_epoch_and_rank) {
  const auto order = [](std::uint64_t seed, std::uint64_t epoch, int rank) {
    MemorySource source(numbered_samples({0, 40}), {8, 5, Order::shuffled, seed, rank});
    return records_of(source, epoch);
  };
  EXPECT_EQ(order(1, 2, 3), order(1, 2, 3));
  const std::set<std::vector<std::uint64_t>> orders{order(1, 2, 3), order(2, 2, 3), order(1, 3, 3),
                                                    order(1, 2, 4)};
  EXPECT_EQ(orders.size(), 4U);
  // Epochs that came before leave no trace.
  MemorySource source(numbered_samples({0, 40}), {8, 5, Order::shuffled, 1, 3});
  records_of(source, 0);
  records_of(source, 7);
  EXPECT_EQ(records_of(source, 2), order(1, 2, 3));
}

TEST(MemorySource, as_stored_is_as_stored_each_epoch) {
  MemorySource source(numbered_samples({5, 7}), {2, 3, Order::as_stored, 9, 1});
  const std::vector<std::uint64_t> expected{5, 6, 7, 8, 9, 10};
  EXPECT_EQ(records_of(source, 0), expected);
  EXPECT_EQ(records_of(source, 1), expected);
}

TEST(MemorySource, an_epoch_resumed_goes_on_as_the_one_interrupted) {
  for (const Order order : {Order::shuffled, Order::random_offset}) {
    for (const std::uint64_t steps : {4ULL, 7ULL}) {  // 7 wrap around
      const FeedOptions options{8, steps, order, 5, 2};
      MemorySource straight(numbered_samples({0, 37}), options);
      const auto whole = records_of(straight, 6);
      for (std::uint64_t first = 0; first <= steps + 1; ++first) {
        MemorySource resumed(numbered_samples({0, 37}), options);
        const auto rest = records_of(resumed, 6, first);
        const auto skipped = static_cast<std::ptrdiff_t>(std::min(first, steps) * 8);
        EXPECT_EQ(rest, std::vector<std::uint64_t>(whole.begin() + skipped, whole.end()));
      }
    }
  }
}

// Each batch is a run of the epoch's permutation, which wraps around, and begins anywhere in it.
TEST(MemorySource, random_offsets_begin_each_batch_anywhere_in_the_permuted_shard) {
  constexpr std::uint64_t kRecords = 37;
  constexpr std::uint64_t kSteps = 400;
  MemorySource strict(numbered_samples({0, kRecords}), {1, kRecords, Order::shuffled, 5, 2});
  MemorySource source(numbered_samples({0, kRecords}), {5, kSteps, Order::random_offset, 5, 2});
  std::vector<std::uint64_t> starts_before;
  for (const std::uint64_t epoch : {0ULL, 1ULL}) {
    const auto order = records_of(strict, epoch);
    std::map<std::uint64_t, std::uint64_t> position;
    for (std::uint64_t i = 0; i < kRecords; ++i) position[order[i]] = i;
    std::vector<std::uint64_t> starts;
    for (const Batch& batch : batches_of(source, epoch)) {
      starts.push_back(position.at(record_of(batch, 0)));
      for (std::size_t i = 0; i < 5; ++i) {
        ASSERT_EQ(record_of(batch, i), order[(starts.back() + i) % kRecords]);
      }
    }
    ASSERT_EQ(starts.size(), kSteps);
    // About 11 batches begin at each of the 37 places.
    std::map<std::uint64_t, int> times;
    for (const std::uint64_t start : starts) ++times[start];
    EXPECT_EQ(times.size(), kRecords);
    for (const auto& [start, count] : times) EXPECT_LT(count, 30) << start;
    EXPECT_NE(starts, starts_before);
    starts_before = starts;
  }
}

TEST(SequentialSource, gives_every_sample_once_and_a_short_last_batch) {
  SequentialSource source(numbered_samples({0, 10}), 4);
  for (const std::uint64_t epoch : {0ULL, 1ULL}) {
    const auto batches = batches_of(source, epoch);
    ASSERT_EQ(batches.size(), 3U);
    EXPECT_EQ(batches[0].size(), 4U);
    EXPECT_EQ(batches[2].size(), 2U);
    EXPECT_EQ(record_of(batches[2], 1), 9U);
  }
  EXPECT_EQ(records_of(source, 0, 1), (std::vector<std::uint64_t>{4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(records_of(source, 0, 3), std::vector<std::uint64_t>{});
  EXPECT_EQ(records_of(source, 0, ~std::uint64_t{0}), std::vector<std::uint64_t>{});
}

TEST(SequentialSource, may_be_empty) {
  SequentialSource source(numbered_samples({0, 0}), 4);
  EXPECT_TRUE(batches_of(source, 0).empty());
}

}  // namespace
}  // namespace dlobd::batches
