#include "batches/sequential_source.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace dlobd::batches {

SequentialSource::SequentialSource(Samples samples, std::uint64_t batch_size)
    : samples_(std::move(samples)), batch_size_(batch_size), position_(samples_.count()) {
  CHECK(batch_size_ > 0, "batches of no samples");
}

base::Result<std::optional<std::uint64_t>> SequentialSource::start_epoch(
    std::uint64_t /*epoch*/, std::uint64_t first_batch) {
  const std::uint64_t batches =
      samples_.count() / batch_size_ + (samples_.count() % batch_size_ == 0 ? 0 : 1);
  position_ = first_batch < batches ? first_batch * batch_size_ : samples_.count();
  return batches;
}

base::Result<std::optional<Batch>> SequentialSource::next() {
  if (position_ == samples_.count()) return std::nullopt;
  numbers_.resize(std::min(batch_size_, samples_.count() - position_));
  std::iota(numbers_.begin(), numbers_.end(), static_cast<std::uint32_t>(position_));
  position_ += numbers_.size();
  return gather(samples_, numbers_);
}

}  // namespace dlobd::batches
