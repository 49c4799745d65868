// Bytes -> records. A Reader gives the records of one split, many per call. Every record of a
// Reader has the same shape. No length that a file states is believed, let alone allocated, before
// it has been checked against the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace dlobd::records {

// A byte range of a file: what Spark and HDFS call a split.
struct Split {
  std::string path;
  std::uint64_t offset_bytes = 0;
  std::uint64_t bytes = 0;
};

struct Shape {
  std::int64_t channels = 1;
  std::int64_t height = 1;
  std::int64_t width = 1;
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(channels * height * width);
  }
  friend bool operator==(const Shape&, const Shape&) = default;
};

// Consecutive records. `values` holds count() records of shape.bytes() bytes each (pixels, channel
// by channel, row by row); it is valid until the next call to the reader.
struct RecordSpan {
  std::span<const std::byte> values;
  std::span<const std::uint8_t> labels;
  [[nodiscard]] std::size_t count() const { return labels.size(); }
};

class Reader {
 public:
  virtual ~Reader() = default;
  [[nodiscard]] virtual Shape shape() const = 0;
  // Records of the whole split.
  [[nodiscard]] virtual std::uint64_t count() const = 0;
  // Of the whole split, in order; valid as long as the reader.
  [[nodiscard]] virtual std::span<const std::uint8_t> labels() const = 0;
  // Sets the next record to be read; at most count().
  virtual base::Result<void> seek(std::uint64_t record) = 0;
  // At most `max_records` (> 0); none at the end.
  virtual base::Result<RecordSpan> next(std::size_t max_records) = 0;
};

}  // namespace dlobd::records
