// Feeding record by record changes nothing but what it costs.
#include "batches/record_feed.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "batches/memory_source.h"
#include "batches/record_queue.h"
#include "batches/sequential_source.h"
#include "data/feed_fixture.h"

namespace dlobd::batches {
namespace {

using dlobd::testing::batches_of;
using dlobd::testing::expect_epochs_may_be_given_up;
using dlobd::testing::expect_same;
using dlobd::testing::memory_source;
using dlobd::testing::numbered_samples;

// Batches of one record each; batch `fail_at` of each epoch is an error.
class FailingSource final : public Source {
 public:
  explicit FailingSource(std::uint64_t fail_at) : fail_at_(fail_at) {}

  base::Result<std::optional<std::uint64_t>> start_epoch(std::uint64_t epoch,
                                                         std::uint64_t first_batch) override {
    if (epoch == 13) return base::fail(base::ErrorKind::not_found, "cannot start: epoch 13");
    next_ = first_batch;
    return std::nullopt;
  }

  base::Result<std::optional<Batch>> next() override {
    if (next_ >= fail_at_) {
      return base::fail(base::ErrorKind::not_found, "cannot read: batch " + std::to_string(next_));
    }
    Batch batch;
    batch.shape = {1, 1, 1};
    batch.pixels = {static_cast<std::uint8_t>(next_)};
    batch.labels = {static_cast<std::int64_t>(next_++)};
    return batch;
  }

 private:
  std::uint64_t fail_at_;
  std::uint64_t next_ = 0;
};

TEST(RecordFeed, gives_what_the_plain_source_gives) {
  const auto plain = memory_source();
  RecordFeedSource fed(memory_source(), 4);
  for (const std::uint64_t epoch : {0ULL, 1ULL, 5ULL}) {
    expect_same(batches_of(fed, epoch), batches_of(*plain, epoch));
  }
  expect_same(batches_of(fed, 2, 7), batches_of(*plain, 2, 7));
}

TEST(RecordFeed, makes_two_round_trips_for_each_record) {
  RecordFeedSource fed(memory_source(20), 4);
  ASSERT_TRUE(fed.start_epoch(0, 0));
  for (std::uint64_t batch = 1; batch <= 20; ++batch) {
    ASSERT_TRUE(fed.next());
    EXPECT_EQ(fed.round_trips(), batch * 4 * 2);
  }
}

TEST(RecordFeed, keeps_a_short_last_batch) {
  RecordFeedSource fed(std::make_unique<SequentialSource>(numbered_samples({0, 10}), 4), 4);
  const auto batches = batches_of(fed, 0);
  ASSERT_EQ(batches.size(), 3U);
  EXPECT_EQ(batches[2].size(), 2U);
}

// More than the queue holds, and records larger than a socket's buffer.
TEST(RecordFeed, carries_many_records_and_large_ones) {
  FeedOptions options{64, 50, Order::as_stored, 1, 0};
  MemorySource plain(numbered_samples({0, 3000}), options);
  RecordFeedSource fed(std::make_unique<MemorySource>(numbered_samples({0, 3000}), options), 64);
  expect_same(batches_of(fed, 0), batches_of(plain, 0));

  Samples large;
  large.shape = {3, 512, 512};
  large.labels = {0, 1, 2};
  large.pixels.resize(3 * large.shape.bytes());
  for (std::size_t i = 0; i < large.pixels.size(); ++i) {
    large.pixels[i] = static_cast<std::uint8_t>(i % 251);
  }
  SequentialSource plain_large(large, 2);
  RecordFeedSource fed_large(std::make_unique<SequentialSource>(large, 2), 2);
  expect_same(batches_of(fed_large, 0), batches_of(plain_large, 0));
}

TEST(RecordFeed, an_epoch_may_start_before_the_last_one_ended) {
  RecordFeedSource fed(memory_source(), 4);
  expect_epochs_may_be_given_up(fed, 50);
}

TEST(RecordFeed, may_go_away_at_any_time) {
  for (int i = 0; i < 50; ++i) {
    RecordFeedSource fed(memory_source(1000), 4);
    if (i % 3 == 0) continue;
    ASSERT_TRUE(fed.start_epoch(0, 0));
    if (i % 3 == 1) {
      ASSERT_TRUE(fed.next());
    }
  }
}

TEST(RecordFeed, an_error_comes_after_the_records_before_it_and_stays) {
  RecordFeedSource fed(std::make_unique<FailingSource>(3), 2);
  ASSERT_TRUE(fed.start_epoch(0, 0));
  const auto first = fed.next();
  ASSERT_TRUE(first && *first);
  EXPECT_EQ((*first)->labels, (std::vector<std::int64_t>{0, 1}));
  const auto second = fed.next();  // what there was
  ASSERT_TRUE(second && *second);
  EXPECT_EQ((*second)->labels, (std::vector<std::int64_t>{2}));
  for (int i = 0; i < 2; ++i) {
    const auto error = fed.next();
    ASSERT_FALSE(error);
    EXPECT_EQ(error.error(), base::Error(base::ErrorKind::not_found, "cannot read: batch 3"));
  }
}

TEST(RecordFeed, an_epoch_that_cannot_start_says_so) {
  RecordFeedSource fed(std::make_unique<FailingSource>(3), 2);
  EXPECT_FALSE(fed.start_epoch(13, 0));
  const auto error = fed.next();
  ASSERT_FALSE(error);
  EXPECT_EQ(error.error().message, "cannot start: epoch 13");
  EXPECT_TRUE(fed.start_epoch(0, 0));
  EXPECT_TRUE(fed.next());
}

TEST(RecordQueue, a_put_waits_for_room_and_a_get_for_an_item) {
  auto queue = RecordQueue::open(2);
  ASSERT_TRUE(queue) << queue.error().message;
  std::thread producer([&] {
    for (int i = 0; i < 100; ++i) {
      const std::vector<std::byte> item(static_cast<std::size_t>(i), static_cast<std::byte>(i));
      EXPECT_TRUE((*queue)->put(item));
    }
  });
  for (int i = 0; i < 100; ++i) {
    const auto item = (*queue)->get();
    EXPECT_TRUE(item);
    EXPECT_EQ(*item, RecordQueue::Item(static_cast<std::size_t>(i), static_cast<std::byte>(i)));
    EXPECT_TRUE((*queue)->task_done());
  }
  producer.join();
}

TEST(RecordQueue, a_put_fails_when_the_consumer_is_gone) {
  auto queue = RecordQueue::open(2);
  ASSERT_TRUE(queue);
  std::thread producer([&] {
    base::Result<void> put;
    while (put) put = (*queue)->put(RecordQueue::Item(10));
    EXPECT_EQ(put.error().message, "the other end of a queue of records is gone");
  });
  EXPECT_TRUE((*queue)->get());
  (*queue)->close_consumer();
  producer.join();
}

}  // namespace
}  // namespace dlobd::batches
