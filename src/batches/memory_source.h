// The training feed of one rank, from its shard in memory. Every epoch has the same, agreed number
// of full batches; samples are drawn in an order that is a function of seed, epoch and rank alone
// (and, with random offsets, of the batch's number), and wrap around at the end of the shard. So an
// epoch resumed at batch b goes on exactly as the one that was interrupted. No errors: memory does
// not fail.
#pragma once

#include <cstdint>
#include <vector>

#include "batches/samples.h"
#include "batches/source.h"

namespace dlobd::batches {

// shuffled: another order each epoch. as_stored: the same, as CaffeOnSpark reads it. random_offset:
// another order each epoch, in which every batch begins anywhere: sampling and no strict pass, as
// BigDL does it.
enum class Order { shuffled, as_stored, random_offset };

struct FeedOptions {
  std::uint64_t batch_size = 0;       // local; > 0
  std::uint64_t steps_per_epoch = 0;  // as agreed between the ranks
  Order order = Order::shuffled;
  std::uint64_t seed = 0;
  int rank = 0;
};

class MemorySource final : public Source {
 public:
  // `samples` is the rank's shard; not empty, fewer than 2^32.
  MemorySource(Samples samples, FeedOptions options);

  base::Result<std::optional<std::uint64_t>> start_epoch(std::uint64_t epoch,
                                                         std::uint64_t first_batch) override;
  base::Result<std::optional<Batch>> next() override;

 private:
  // Of the next batch's first sample, in the order.
  [[nodiscard]] std::uint64_t first_position() const;

  Samples samples_;
  FeedOptions options_;
  std::vector<std::uint32_t> order_;    // a permutation of the samples
  std::vector<std::uint32_t> numbers_;  // of the batch being gathered
  std::uint64_t epoch_ = 0;
  std::uint64_t next_batch_ = 0;
  bool started_ = false;
};

}  // namespace dlobd::batches
