#include "records/idx.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/check.h"
#include "records/gz.h"
#include "records/idx_header.h"

namespace dlobd::records {
namespace {

using base::ErrorKind;
using storage::File;

constexpr std::size_t kLongestHeader = 16;
constexpr std::size_t kLabelsAtOnce = 64 * 1024;

// A file whose header has been checked against its size.
struct Checked {
  std::unique_ptr<File> file;
  std::string path;  // as opened: with ".gz" if it was found so
  IdxHeader header;
};

// The records [first, end) of a file.
struct Range {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
};

// Opens `path`, or `path`.gz if there is no `path`; `path` becomes the one that was found.
base::Result<std::unique_ptr<File>> open_either(storage::Store& store, std::string& path) {
  auto file = store.open(path);
  if (file || file.error().kind != ErrorKind::not_found || path.ends_with(".gz")) return file;
  auto compressed = store.open(path + ".gz");
  if (compressed) {
    path += ".gz";
    return compressed;
  }
  if (compressed.error().kind != ErrorKind::not_found) return compressed;
  return base::fail(ErrorKind::not_found, file.error().message + " (nor " + path + ".gz)");
}

base::Result<Checked> open_checked(storage::Store& store, IdxKind kind, std::string path) {
  DLOBD_TRY(file, open_either(store, path));
  GzFile* gz = nullptr;
  if (path.ends_with(".gz")) {
    auto inflated = std::make_unique<GzFile>(std::move(file), path);
    gz = inflated.get();
    file = std::move(inflated);
  }
  std::array<std::byte, kLongestHeader> start;
  DLOBD_TRY(got, file->read_at(0, start));
  DLOBD_TRY(header, parse_idx_header(kind, std::span(start).first(got), path));
  std::uint64_t bytes = file->size();
  if (gz) {
    DLOBD_TRY(measured, gz->measure(header.file_bytes()));
    bytes = measured;
  }
  DLOBD_TRY_VOID(sized, expect_size(header, bytes, path));
  Checked checked;
  checked.file = std::move(file);
  checked.path = std::move(path);
  checked.header = header;
  return checked;
}

base::Error cut_short(const std::string& path, std::uint64_t record) {
  return {ErrorKind::io_error,
          fmt::format("IDX file gave fewer bytes than it has: record {}: {}", record, path)};
}

// Every label of the file is checked; those of `range` are kept.
base::Result<std::vector<std::uint8_t>> read_labels(const Checked& labels, Range range,
                                                    int classes) {
  std::vector<std::uint8_t> kept;
  kept.reserve(range.end - range.first);  // at most the bytes of the file
  std::vector<std::uint8_t> some(std::min<std::uint64_t>(kLabelsAtOnce, labels.header.count));
  for (std::uint64_t record = 0; record < labels.header.count;) {
    const std::size_t count = std::min<std::uint64_t>(some.size(), labels.header.count - record);
    const std::uint64_t offset = labels.header.header_bytes() + record;
    DLOBD_TRY(got,
              labels.file->read_at(offset, std::as_writable_bytes(std::span(some.data(), count))));
    if (got < count) return base::fail(cut_short(labels.path, record + got));
    for (std::size_t i = 0; i < count; ++i, ++record) {
      if (some[i] >= classes)
        return base::fail(
            ErrorKind::corrupt_data,
            fmt::format("label out of range: record {} has label {}, but there are {} "
                        "classes: {}",
                        record, some[i], classes, labels.path));
      if (record >= range.first && record < range.end) kept.push_back(some[i]);
    }
  }
  return kept;
}

// The records that begin within the split.
base::Result<Range> range_of(const Split& split, const IdxHeader& header, const std::string& path) {
  const std::uint64_t size = header.file_bytes();
  if (split.offset_bytes > size || split.bytes > size - split.offset_bytes)
    return base::fail(
        ErrorKind::invalid_argument,
        fmt::format("split reaches beyond its file: bytes {} to {} of {}: {}", split.offset_bytes,
                    split.offset_bytes + split.bytes, size, path));
  const auto record_at = [&header](std::uint64_t offset) -> std::uint64_t {
    if (offset <= header.header_bytes()) return 0;
    const std::uint64_t body = offset - header.header_bytes();
    return body / header.record_bytes() + (body % header.record_bytes() == 0 ? 0 : 1);
  };
  const std::uint64_t end = split.bytes == 0 ? size : split.offset_bytes + split.bytes;
  return Range{record_at(split.offset_bytes), record_at(end)};
}

class IdxReader final : public Reader {
 public:
  IdxReader(Checked images, Range range, std::vector<std::uint8_t> labels)
      : images_(std::move(images)), first_(range.first), labels_(std::move(labels)) {}

  [[nodiscard]] Shape shape() const override { return images_.header.shape(); }
  [[nodiscard]] std::uint64_t count() const override { return labels_.size(); }
  [[nodiscard]] std::span<const std::uint8_t> labels() const override { return labels_; }

  base::Result<void> seek(std::uint64_t record) override {
    if (record > count())
      return base::fail(
          ErrorKind::invalid_argument,
          fmt::format("seek beyond the split: record {} of {}: {}", record, count(), images_.path));
    next_ = record;
    return {};
  }

  base::Result<RecordSpan> next(std::size_t max_records) override {
    CHECK(max_records > 0, "no records asked for");
    const std::size_t records = std::min<std::uint64_t>(max_records, count() - next_);
    const std::uint64_t record_bytes = images_.header.record_bytes();
    const std::uint64_t first = first_ + next_;
    values_.resize(records * record_bytes);  // at most the bytes of the file
    DLOBD_TRY(got,
              images_.file->read_at(images_.header.header_bytes() + first * record_bytes, values_));
    if (got < values_.size())
      return base::fail(cut_short(images_.path, first + got / record_bytes));
    RecordSpan span;
    span.values = values_;
    span.labels = std::span(labels_).subspan(next_, records);
    next_ += records;
    return span;
  }

 private:
  Checked images_;
  std::uint64_t first_;  // record of the file at which the split begins
  std::uint64_t next_ = 0;
  std::vector<std::uint8_t> labels_;
  std::vector<std::byte> values_;
};

}  // namespace

base::Result<std::unique_ptr<Reader>> open_idx(storage::Store& store, const Split& images_split,
                                               const std::string& labels_path, int classes) {
  DLOBD_TRY(images, open_checked(store, IdxKind::images, images_split.path));
  DLOBD_TRY(labels, open_checked(store, IdxKind::labels, labels_path));
  if (images.header.count != labels.header.count)
    return base::fail(
        ErrorKind::corrupt_data,
        fmt::format("images and labels differ in number: {} images in {}, {} labels "
                    "in {}",
                    images.header.count, images.path, labels.header.count, labels.path));
  DLOBD_TRY(range, range_of(images_split, images.header, images.path));
  DLOBD_TRY(kept, read_labels(labels, range, classes));
  return std::make_unique<IdxReader>(std::move(images), range, std::move(kept));
}

}  // namespace dlobd::records
