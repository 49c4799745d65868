#include "batches/memory_source.h"

#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/random.h"

namespace dlobd::batches {

MemorySource::MemorySource(Samples samples, FeedOptions options)
    : samples_(std::move(samples)),
      options_(options),
      order_(samples_.count()),
      numbers_(options.batch_size) {
  CHECK(!order_.empty(), "a feed of no samples: rank {}", options_.rank);
  CHECK(order_.size() <= std::numeric_limits<std::uint32_t>::max(), "{} samples in memory",
        order_.size());
  CHECK(options_.batch_size > 0, "batches of no samples: rank {}", options_.rank);
}

base::Result<std::optional<std::uint64_t>> MemorySource::start_epoch(std::uint64_t epoch,
                                                                     std::uint64_t first_batch) {
  std::iota(order_.begin(), order_.end(), 0U);
  if (options_.order != Order::as_stored) {
    auto random =
        base::Random::of({options_.seed, epoch, static_cast<std::uint64_t>(options_.rank)});
    random.shuffle(std::span(order_));
  }
  epoch_ = epoch;
  next_batch_ = first_batch;
  started_ = true;
  return options_.steps_per_epoch;
}

std::uint64_t MemorySource::first_position() const {
  if (options_.order != Order::random_offset) {
    return next_batch_ * options_.batch_size % order_.size();
  }
  auto random = base::Random::of(
      {options_.seed, epoch_, static_cast<std::uint64_t>(options_.rank), next_batch_});
  return random.below(order_.size());
}

base::Result<std::optional<Batch>> MemorySource::next() {
  CHECK(started_, "no epoch has been started: rank {}", options_.rank);
  if (next_batch_ >= options_.steps_per_epoch) return std::nullopt;
  std::uint64_t position = first_position();
  for (std::uint32_t& number : numbers_) {
    number = order_[position];
    if (++position == order_.size()) position = 0;
  }
  ++next_batch_;
  return gather(samples_, numbers_);
}

}  // namespace dlobd::batches
