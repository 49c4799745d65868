// Every sample once, as stored, each epoch the same: for evaluation. The last batch may be short.
#pragma once

#include <cstdint>
#include <vector>

#include "batches/samples.h"
#include "batches/source.h"

namespace dlobd::batches {

class SequentialSource final : public Source {
 public:
  // batch_size > 0. No samples: no batches.
  SequentialSource(Samples samples, std::uint64_t batch_size);

  [[nodiscard]] std::uint64_t count() const { return samples_.count(); }
  base::Result<std::optional<std::uint64_t>> start_epoch(std::uint64_t epoch,
                                                         std::uint64_t first_batch) override;
  base::Result<std::optional<Batch>> next() override;

 private:
  Samples samples_;
  std::uint64_t batch_size_;
  std::uint64_t position_;  // the next sample
  std::vector<std::uint32_t> numbers_;
};

}  // namespace dlobd::batches
