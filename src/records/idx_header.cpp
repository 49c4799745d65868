#include "records/idx_header.h"

#include <fmt/format.h>

#include <limits>
#include <string_view>

namespace dlobd::records {
namespace {

using base::ErrorKind;

constexpr std::uint32_t kImagesMagic = 0x00000803;  // bytes, three dimensions
constexpr std::uint32_t kLabelsMagic = 0x00000801;  // bytes, one dimension

std::uint32_t big_endian(std::span<const std::byte> bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value = value << 8 | std::to_integer<std::uint32_t>(bytes[at + i]);
  return value;
}

std::string_view name(IdxKind kind) {
  return kind == IdxKind::images ? "images" : "labels";
}

}  // namespace

base::Result<IdxHeader> parse_idx_header(IdxKind kind, std::span<const std::byte> start,
                                         const std::string& path) {
  IdxHeader header;
  header.kind = kind;
  if (start.empty())
    return base::fail(ErrorKind::corrupt_data,
                      fmt::format("IDX file of {} is empty: {}", name(kind), path));
  // The magic first: a file of another kind is named as such even where it is shorter than a
  // header.
  const std::uint32_t expected = kind == IdxKind::images ? kImagesMagic : kLabelsMagic;
  if (start.size() >= 4 && big_endian(start, 0) != expected)
    return base::fail(ErrorKind::corrupt_data,
                      fmt::format("not an IDX file of {}: magic number 0x{:08x} found, 0x{:08x} "
                                  "expected: {}",
                                  name(kind), big_endian(start, 0), expected, path));
  if (start.size() < header.header_bytes())
    return base::fail(
        ErrorKind::corrupt_data,
        fmt::format("IDX file of {} is truncated within its header: {} of {} bytes: {}", name(kind),
                    start.size(), header.header_bytes(), path));
  header.count = big_endian(start, 4);
  if (kind == IdxKind::images) {
    header.rows = big_endian(start, 8);
    header.columns = big_endian(start, 12);
  }
  if (header.count == 0 || header.rows == 0 || header.columns == 0)
    return base::fail(ErrorKind::corrupt_data,
                      fmt::format("IDX file of {} says that it is empty: {} records of {} x {}: {}",
                                  name(kind), header.count, header.rows, header.columns, path));
  // 2^63 - 1 bytes are more than any file has.
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (header.record_bytes() > (kMost - header.header_bytes()) / header.count)
    return base::fail(
        ErrorKind::corrupt_data,
        fmt::format(
            "IDX file of {} claims more bytes than a file can have: {} records of {} x {}: {}",
            name(kind), header.count, header.rows, header.columns, path));
  return header;
}

base::Result<void> expect_size(const IdxHeader& header, std::uint64_t bytes,
                               const std::string& path) {
  if (bytes == header.file_bytes()) return {};
  const std::string claim =
      header.kind == IdxKind::images
          ? fmt::format("{} images of {} x {}", header.count, header.rows, header.columns)
          : fmt::format("{} labels", header.count);
  if (bytes < header.file_bytes())
    return base::fail(ErrorKind::corrupt_data,
                      fmt::format("IDX file of {} is truncated: its header says {}, which need {} "
                                  "bytes, but there are {}: {}",
                                  name(header.kind), claim, header.file_bytes(), bytes, path));
  return base::fail(
      ErrorKind::corrupt_data,
      fmt::format("IDX file of {} has trailing bytes: its header says {}, which end at "
                  "byte {}, but more follow: {}",
                  name(header.kind), claim, header.file_bytes(), path));
}

}  // namespace dlobd::records
