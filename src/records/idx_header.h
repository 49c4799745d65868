// The header of an IDX file of bytes: a magic number (0x00000803 for images, 0x00000801 for
// labels), then one big-endian 32-bit length a dimension. Parsing allocates nothing and reads no
// further than the header; expect_size() then holds the lengths against the bytes that the file
// really has. Errors: corrupt_data, one line with the path, what was found and what was expected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "records/reader.h"

namespace dlobd::records {

enum class IdxKind { images, labels };

struct IdxHeader {
  IdxKind kind = IdxKind::images;
  std::uint32_t count = 0;  // > 0
  std::uint32_t rows = 1;   // > 0; labels: 1
  std::uint32_t columns = 1;

  [[nodiscard]] std::size_t header_bytes() const { return kind == IdxKind::images ? 16 : 8; }
  [[nodiscard]] std::uint64_t record_bytes() const { return std::uint64_t{rows} * columns; }
  // Of the whole file; parse_idx_header refuses a header for which this would not fit into 63 bits.
  [[nodiscard]] std::uint64_t file_bytes() const { return header_bytes() + count * record_bytes(); }
  [[nodiscard]] Shape shape() const { return {1, rows, columns}; }
};

// `start` is the beginning of the file, at least its first 16 bytes if it has as many.
base::Result<IdxHeader> parse_idx_header(IdxKind kind, std::span<const std::byte> start,
                                         const std::string& path);

// Fails unless the file has exactly the bytes that its header asks for.
base::Result<void> expect_size(const IdxHeader& header, std::uint64_t bytes,
                               const std::string& path);

}  // namespace dlobd::records
