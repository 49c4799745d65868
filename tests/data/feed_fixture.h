// Samples that know their number, and reading a source to its end.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "batches/memory_source.h"
#include "batches/samples.h"
#include "batches/shard.h"
#include "batches/source.h"

namespace dlobd::testing {

// The record's number in the first two bytes of its pixels; the label is its last digit.
inline batches::Samples numbered_samples(batches::Shard shard) {
  batches::Samples samples;
  samples.shape = {1, 2, 2};
  for (std::uint64_t record = shard.first; record < shard.first + shard.count; ++record) {
    for (const std::uint64_t pixel : {record & 0xff, record >> 8 & 0xff, std::uint64_t{7}, record})
      samples.pixels.push_back(static_cast<std::uint8_t>(pixel));
    samples.labels.push_back(static_cast<std::uint8_t>(record % 10));
  }
  return samples;
}

inline std::uint64_t record_of(const batches::Batch& batch, std::size_t i) {
  const std::uint8_t* pixels = batch.pixels.data() + i * batch.shape.bytes();
  return pixels[0] | std::uint64_t{pixels[1]} << 8;
}

// All batches of an epoch from `first_batch` on; their number is what start_epoch() promised.
inline std::vector<batches::Batch> batches_of(batches::Source& source, std::uint64_t epoch,
                                              std::uint64_t first_batch = 0) {
  std::vector<batches::Batch> batches;
  const auto promised = source.start_epoch(epoch, first_batch);
  EXPECT_TRUE(promised);
  for (;;) {
    auto batch = source.next();
    EXPECT_TRUE(batch);
    if (!batch || !*batch) break;
    batches.push_back(std::move(**batch));
  }
  if (promised && *promised) {
    const std::uint64_t whole = **promised;
    EXPECT_EQ(batches.size(), first_batch < whole ? whole - first_batch : 0);
  }
  return batches;
}

inline std::unique_ptr<batches::Source> memory_source(std::uint64_t steps = 20) {
  return std::make_unique<batches::MemorySource>(
      numbered_samples({0, 100}), batches::FeedOptions{4, steps, batches::Order::shuffled, 11, 1});
}

inline void expect_same(const std::vector<batches::Batch>& a,
                        const std::vector<batches::Batch>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].shape, b[i].shape);
    EXPECT_EQ(a[i].pixels, b[i].pixels);
    EXPECT_EQ(a[i].labels, b[i].labels);
  }
}

// Epochs that are given up after a few batches, and the next begun at once: `source` goes on as a
// plain one does.
inline void expect_epochs_may_be_given_up(batches::Source& source, std::uint64_t epochs) {
  const auto plain = memory_source();
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    ASSERT_TRUE(source.start_epoch(epoch, 0));
    ASSERT_TRUE(plain->start_epoch(epoch, 0));
    for (std::uint64_t batch = 0; batch < epoch % 5; ++batch) {
      const auto ours = source.next();
      const auto theirs = plain->next();
      ASSERT_TRUE(ours && *ours && theirs && *theirs);
      ASSERT_EQ((*ours)->pixels, (*theirs)->pixels);
    }
  }
}

}  // namespace dlobd::testing
