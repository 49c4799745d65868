// Records -> batches. A Source belongs to one rank. start_epoch() fixes the order of an epoch as a
// function of seed, epoch and rank; next() then gives its batches. Pixels stay bytes: the replica
// turns them into numbers on its own device. Calls block; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "records/reader.h"

namespace dlobd::batches {

struct Batch {
  records::Shape shape;              // of one sample
  std::vector<std::uint8_t> pixels;  // size() * shape.bytes()
  std::vector<std::int64_t> labels;  // size()
  [[nodiscard]] std::size_t size() const { return labels.size(); }
};

class Source {
 public:
  virtual ~Source() = default;
  // Begins `epoch` (from 0) at its batch `first_batch` (to resume within an epoch). Returns the
  // number of batches of the whole epoch if it is known; a stream does not know it.
  virtual base::Result<std::optional<std::uint64_t>> start_epoch(std::uint64_t epoch,
                                                                 std::uint64_t first_batch) = 0;
  // The next batch; nothing at the end of the epoch.
  virtual base::Result<std::optional<Batch>> next() = 0;
};

}  // namespace dlobd::batches
