// Reading ahead changes nothing but when a batch is read.
#include "batches/prefetch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "batches/memory_source.h"
#include "data/feed_fixture.h"

namespace dlobd::batches {
namespace {

using dlobd::testing::batches_of;
using dlobd::testing::expect_epochs_may_be_given_up;
using dlobd::testing::expect_same;
using dlobd::testing::memory_source;
using dlobd::testing::numbered_samples;
using dlobd::testing::record_of;

// Counts what is asked of it; from batch `fail_at` of each epoch on, every batch is an error.
class CountingSource final : public Source {
 public:
  CountingSource(std::uint64_t batches, std::optional<std::uint64_t> fail_at = std::nullopt)
      : batches_(batches), fail_at_(fail_at) {}

  base::Result<std::optional<std::uint64_t>> start_epoch(std::uint64_t epoch,
                                                         std::uint64_t first_batch) override {
    if (epoch == 13) return base::fail(base::ErrorKind::io_error, "cannot start: epoch 13");
    next_ = first_batch;
    return std::nullopt;
  }

  base::Result<std::optional<Batch>> next() override {
    EXPECT_FALSE(inside_.exchange(true)) << "two threads at once";
    ++asked;
    std::this_thread::yield();
    inside_ = false;
    if (next_ >= batches_) return std::nullopt;
    if (fail_at_ && next_ >= *fail_at_)
      return base::fail(base::ErrorKind::io_error, "cannot read: batch " + std::to_string(next_));
    Batch batch;
    batch.shape = {1, 1, 1};
    batch.pixels = {static_cast<std::uint8_t>(next_)};
    batch.labels = {static_cast<std::int64_t>(next_++)};
    return batch;
  }

  std::atomic<std::uint64_t> asked = 0;

 private:
  std::uint64_t batches_;
  std::optional<std::uint64_t> fail_at_;
  std::uint64_t next_ = 0;
  std::atomic<bool> inside_ = false;
};

TEST(Prefetch, gives_what_the_plain_source_gives) {
  const auto plain = memory_source();
  for (const std::size_t depth : {1, 2, 4, 100}) {
    PrefetchSource prefetched(memory_source(), depth);
    for (const std::uint64_t epoch : {0ULL, 1ULL, 5ULL})
      expect_same(batches_of(prefetched, epoch), batches_of(*plain, epoch));
    expect_same(batches_of(prefetched, 2, 7), batches_of(*plain, 2, 7));
  }
}

TEST(Prefetch, an_epoch_may_start_before_the_last_one_ended) {
  PrefetchSource prefetched(memory_source(), 3);
  expect_epochs_may_be_given_up(prefetched, 200);
}

TEST(Prefetch, reads_ahead_but_no_further_than_its_depth) {
  auto counting = std::make_unique<CountingSource>(100);
  CountingSource& counted = *counting;
  PrefetchSource prefetched(std::move(counting), 3);
  EXPECT_EQ(counted.asked, 0U);
  ASSERT_TRUE(prefetched.start_epoch(0, 0));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (counted.asked < 3 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_EQ(counted.asked, 3U);
  for (std::uint64_t batch = 0; batch < 50; ++batch) {
    const auto got = prefetched.next();
    ASSERT_TRUE(got && *got);
    EXPECT_EQ((*got)->labels[0], static_cast<std::int64_t>(batch));
    EXPECT_LE(counted.asked, batch + 4);
  }
}

TEST(Prefetch, the_end_comes_after_the_batches_and_stays) {
  PrefetchSource prefetched(std::make_unique<CountingSource>(2), 4);
  ASSERT_TRUE(prefetched.start_epoch(0, 0));
  EXPECT_TRUE(prefetched.next()->has_value());
  EXPECT_TRUE(prefetched.next()->has_value());
  for (int i = 0; i < 3; ++i) {
    const auto end = prefetched.next();
    ASSERT_TRUE(end);
    EXPECT_FALSE(end->has_value());
  }
  ASSERT_TRUE(prefetched.start_epoch(1, 1));
  EXPECT_TRUE(prefetched.next()->has_value());
  EXPECT_FALSE(prefetched.next()->has_value());
}

TEST(Prefetch, an_error_comes_after_the_batches_before_it_and_stays) {
  PrefetchSource prefetched(std::make_unique<CountingSource>(100, 5), 2);
  for (const std::uint64_t first : {0ULL, 3ULL}) {
    ASSERT_TRUE(prefetched.start_epoch(0, first));
    for (std::uint64_t batch = first; batch < 5; ++batch) {
      const auto got = prefetched.next();
      ASSERT_TRUE(got && *got);
      EXPECT_EQ((*got)->labels[0], static_cast<std::int64_t>(batch));
    }
    for (int i = 0; i < 3; ++i) {
      const auto failed = prefetched.next();
      ASSERT_FALSE(failed);
      EXPECT_EQ(failed.error().message, "cannot read: batch 5");
    }
  }
}

TEST(Prefetch, an_epoch_that_cannot_start_is_an_error_until_another_does) {
  PrefetchSource prefetched(std::make_unique<CountingSource>(2), 2);
  const auto failed = prefetched.start_epoch(13, 0);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "cannot start: epoch 13");
  EXPECT_FALSE(prefetched.next());
  EXPECT_EQ(batches_of(prefetched, 0).size(), 2U);
}

TEST(Prefetch, may_be_thrown_away_at_any_moment) {
  for (int i = 0; i < 100; ++i) {
    PrefetchSource prefetched(memory_source(), 2);
    if (i % 4 == 0) continue;  // never started
    ASSERT_TRUE(prefetched.start_epoch(0, 0));
    for (int batch = 0; batch < i % 4 - 1; ++batch) ASSERT_TRUE(prefetched.next());
  }
}

}  // namespace
}  // namespace dlobd::batches
