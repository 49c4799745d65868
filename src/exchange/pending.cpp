#include "exchange/pending.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace dlobd::exchange {

PendingBuckets::PendingBuckets(const std::vector<compute::ParameterView>& views,
                               std::size_t bucket_bytes)
    : buckets_(exchange::buckets(views, bucket_bytes)),
      bucket_of_view_(views.size()),
      missing_(buckets_.size()) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    for (const std::size_t view : buckets_[i].views) bucket_of_view_.at(view) = i;
  }
}

void PendingBuckets::begin() {
  for (std::size_t i = 0; i < buckets_.size(); ++i) missing_[i] = buckets_[i].views.size();
}

std::optional<std::size_t> PendingBuckets::ready(std::size_t view) {
  const std::size_t bucket = bucket_of_view_.at(view);
  CHECK(missing_[bucket] > 0, "a gradient that is not due: view {}", view);
  if (--missing_[bucket] > 0) return std::nullopt;
  return bucket;
}

std::size_t PendingBuckets::missing() const {
  return std::accumulate(missing_.begin(), missing_.end(), std::size_t{0});
}

base::Error PendingBuckets::ended_early() const {
  return {base::ErrorKind::cancelled,
          fmt::format("the backward pass ended before all gradients were ready: {} missing",
                      missing())};
}

std::size_t largest(const std::vector<Bucket>& buckets) {
  std::size_t largest = 0;
  for (const Bucket& bucket : buckets) largest = std::max(largest, bucket.range.size());
  return largest;
}

}  // namespace dlobd::exchange
