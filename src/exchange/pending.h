// Which buckets of gradients are complete: the book-keeping of every exchange that starts
// communication during the backward pass. Belongs to the loop's thread.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/result.h"
#include "exchange/slices.h"

namespace dlobd::exchange {

class PendingBuckets {
 public:
  PendingBuckets(const std::vector<compute::ParameterView>& views, std::size_t bucket_bytes);

  [[nodiscard]] const std::vector<Bucket>& buckets() const { return buckets_; }

  // A step: every gradient is missing.
  void begin();
  // The bucket that this gradient completes, if it does. CHECKs that the gradient was missing.
  std::optional<std::size_t> ready(std::size_t view);
  [[nodiscard]] bool complete(std::size_t bucket) const { return missing_.at(bucket) == 0; }
  // Gradients that are missing.
  [[nodiscard]] std::size_t missing() const;
  // cancelled: the step was finished while gradients were missing.
  [[nodiscard]] base::Error ended_early() const;

 private:
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_view_;
  std::vector<std::size_t> missing_;  // by bucket
};

// Elements of the largest.
std::size_t largest(const std::vector<Bucket>& buckets);

}  // namespace dlobd::exchange
