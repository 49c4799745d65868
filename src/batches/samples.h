// Samples in memory, as bytes: what one rank holds of a data set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "batches/shard.h"
#include "batches/source.h"
#include "records/reader.h"

namespace dlobd::batches {

struct Samples {
  records::Shape shape;              // of one sample
  std::vector<std::uint8_t> pixels;  // count() * shape.bytes()
  std::vector<std::uint8_t> labels;
  [[nodiscard]] std::uint64_t count() const { return labels.size(); }
};

// Reads the records of `shard` and no others, some thousand at a time.
base::Result<Samples> load(records::Reader& reader, Shard shard);

// The batch of the samples with these numbers, in this order.
Batch gather(const Samples& samples, std::span<const std::uint32_t> numbers);

}  // namespace dlobd::batches
