// Reading IDX: what is there comes back, raw or gzip, whole or by splits; what is wrong with a file
// is said in one line, with the file and the numbers.
#include "records/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "data/idx_fixture.h"
#include "storage/faulty.h"
#include "storage/local.h"
#include "storage/memory.h"

namespace dlobd::records {
namespace {

using base::ErrorKind;
using dlobd::testing::Bytes;
using dlobd::testing::gzip;
using dlobd::testing::idx_images;
using dlobd::testing::idx_label;
using dlobd::testing::idx_labels;
using dlobd::testing::idx_pixel;
using dlobd::testing::TempFolder;
using storage::MemoryStore;

constexpr std::uint32_t kRecords = 50;
constexpr std::size_t kRecordBytes = 4 * 3;

base::Result<std::unique_ptr<Reader>> open(storage::Store& store, Split split = {"images"}) {
  return open_idx(store, split, "labels", 10);
}

// Reads the rest of `reader` and checks that it is the records from `first` on.
void expect_records(Reader& reader, std::uint64_t first, std::uint64_t count,
                    std::size_t max_records) {
  ASSERT_EQ(reader.count(), count);
  std::uint64_t record = first;
  for (;;) {
    const auto span = reader.next(max_records);
    ASSERT_TRUE(span) << span.error().message;
    if (span->count() == 0) break;
    ASSERT_LE(span->count(), max_records);
    ASSERT_EQ(span->values.size(), span->count() * kRecordBytes);
    for (std::size_t i = 0; i < span->count(); ++i, ++record) {
      EXPECT_EQ(span->labels[i], idx_label(record));
      for (std::size_t pixel = 0; pixel < kRecordBytes; ++pixel) {
        ASSERT_EQ(std::to_integer<int>(span->values[i * kRecordBytes + pixel]),
                  idx_pixel(record, pixel));
      }
    }
  }
  EXPECT_EQ(record, first + count);
}

// The one line that opening these two files gives.
std::string error_of(const Bytes& images, const Bytes& labels,
                     ErrorKind kind = ErrorKind::corrupt_data) {
  MemoryStore store;
  store.put("images", images);
  store.put("labels", labels);
  const auto reader = open(store);
  if (reader) return "no error";
  EXPECT_EQ(reader.error().kind, kind);
  EXPECT_EQ(reader.error().message.find('\n'), std::string::npos);

  // Compressed, the same files give the same error, but for their names.
  MemoryStore compressed;
  compressed.put("images.gz", gzip(images));
  compressed.put("labels.gz", gzip(labels));
  const auto same = open(compressed);
  EXPECT_FALSE(same);
  if (!same) {
    std::string message = same.error().message;
    for (auto at = message.find(".gz"); at != std::string::npos; at = message.find(".gz"))
      message.erase(at, 3);
    EXPECT_EQ(message, reader.error().message);
  }
  return reader.error().message;
}

Bytes with_word(Bytes bytes, std::size_t at, std::uint32_t value) {
  Bytes word;
  dlobd::testing::put_big_endian(word, value);
  std::copy(word.begin(), word.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
  return bytes;
}

Bytes resized(Bytes bytes, std::ptrdiff_t by) {
  bytes.resize(bytes.size() + static_cast<std::size_t>(by));
  return bytes;
}

TEST(Idx, gives_shape_labels_and_pixels) {
  for (const bool compressed : {false, true}) {
    MemoryStore store;
    const std::string ending = compressed ? ".gz" : "";
    const Bytes images = idx_images(kRecords);
    const Bytes labels = idx_labels(kRecords);
    store.put("images" + ending, compressed ? gzip(images) : images);
    store.put("labels" + ending, compressed ? gzip(labels) : labels);
    for (const std::size_t max_records : {1, 7, 50, 1000}) {
      auto reader = open(store);
      ASSERT_TRUE(reader) << reader.error().message;
      EXPECT_EQ((*reader)->shape(), (Shape{1, 4, 3}));
      expect_records(**reader, 0, kRecords, max_records);
    }
  }
}

TEST(Idx, seeks_forward_and_back_raw_and_compressed) {
  MemoryStore store;
  store.put("images", idx_images(kRecords));
  store.put("images2.gz", gzip(idx_images(kRecords)));
  store.put("labels", idx_labels(kRecords));
  for (const std::string path : {"images", "images2"}) {
    auto reader = open(store, {path});
    ASSERT_TRUE(reader);
    for (const std::uint64_t record : {49ULL, 0ULL, 20ULL, 19ULL, 50ULL}) {
      ASSERT_TRUE((*reader)->seek(record));
      const auto span = (*reader)->next(1);
      ASSERT_TRUE(span);
      if (record == kRecords) {
        EXPECT_EQ(span->count(), 0U);
        continue;
      }
      EXPECT_EQ(std::to_integer<std::uint64_t>(span->values[0]), record);
      EXPECT_EQ(span->labels[0], idx_label(record));
    }
    const auto beyond = (*reader)->seek(51);
    ASSERT_FALSE(beyond);
    EXPECT_THAT(beyond.error().message, ::testing::HasSubstr("record 51 of 50"));
  }
}

TEST(Idx, compressed_files_may_be_joined_and_larger_than_any_buffer) {
  const std::uint32_t many = 20000;  // 240,000 bytes
  const Bytes images = idx_images(many);
  Bytes joined = gzip(std::span(images).first(100'001));
  const Bytes rest = gzip(std::span(images).subspan(100'001));
  joined.insert(joined.end(), rest.begin(), rest.end());
  MemoryStore store;
  store.put("images.gz", joined);
  store.put("labels.gz", gzip(idx_labels(many)));
  auto reader = open(store);
  ASSERT_TRUE(reader) << reader.error().message;
  expect_records(**reader, 0, many, 4096);
}

TEST(Idx, splits_of_any_size_give_every_record_once) {
  MemoryStore store;
  store.put("images", idx_images(kRecords));
  store.put("labels", idx_labels(kRecords));
  const std::uint64_t size = idx_images(kRecords).size();
  for (const std::uint64_t bytes : {1ULL, 5ULL, 12ULL, 13ULL, 100ULL, 615ULL, 616ULL}) {
    std::uint64_t next = 0;
    for (std::uint64_t offset = 0; offset < size; offset += bytes) {
      auto reader = open(store, {"images", offset, std::min(bytes, size - offset)});
      ASSERT_TRUE(reader) << reader.error().message;
      const std::uint64_t count = (*reader)->count();
      expect_records(**reader, next, count, 3);
      next += count;
    }
    EXPECT_EQ(next, kRecords) << "splits of " << bytes << " bytes";
  }
  const auto beyond = open(store, {"images", 600, 17});
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().message,
            "split reaches beyond its file: bytes 600 to 617 of 616: images");
  EXPECT_FALSE(open(store, {"images", 617, 0}));
  EXPECT_FALSE(open(store, {"images", 10, ~std::uint64_t{0}}));
}

TEST(Idx, truncated_files) {
  const Bytes images = idx_images(kRecords);
  const Bytes labels = idx_labels(kRecords);
  EXPECT_EQ(error_of(resized(images, -1), labels),
            "IDX file of images is truncated: its header says 50 images of 4 x 3, which need 616 "
            "bytes, but there are 615: images");
  EXPECT_EQ(error_of(images, resized(labels, -3)),
            "IDX file of labels is truncated: its header says 50 labels, which need 58 bytes, but "
            "there are 55: labels");
  EXPECT_EQ(error_of(resized(images, 9 - 616), labels),
            "IDX file of images is truncated within its header: 9 of 16 bytes: images");
  EXPECT_EQ(error_of(images, resized(labels, 7 - 58)),
            "IDX file of labels is truncated within its header: 7 of 8 bytes: labels");
}

TEST(Idx, trailing_bytes) {
  EXPECT_EQ(error_of(resized(idx_images(kRecords), 1), idx_labels(kRecords)),
            "IDX file of images has trailing bytes: its header says 50 images of 4 x 3, which end "
            "at byte 616, but more follow: images");
  EXPECT_EQ(error_of(idx_images(kRecords), resized(idx_labels(kRecords), 100)),
            "IDX file of labels has trailing bytes: its header says 50 labels, which end at byte "
            "58, but more follow: labels");
}

TEST(Idx, wrong_magic) {
  EXPECT_EQ(
      error_of(idx_labels(kRecords), idx_labels(kRecords)),
      "not an IDX file of images: magic number 0x00000801 found, 0x00000803 expected: images");
  EXPECT_EQ(
      error_of(idx_images(kRecords), idx_images(kRecords)),
      "not an IDX file of labels: magic number 0x00000803 found, 0x00000801 expected: labels");
}

TEST(Idx, empty_files_and_files_of_nothing) {
  MemoryStore store;
  store.put("images", {});
  store.put("labels", idx_labels(kRecords));
  const auto reader = open(store);
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().message, "IDX file of images is empty: images");
  EXPECT_EQ(error_of(idx_images(kRecords), {}), "IDX file of labels is empty: labels");
  EXPECT_EQ(error_of(idx_images(0), idx_labels(0)),
            "IDX file of images says that it is empty: 0 records of 4 x 3: images");
  EXPECT_EQ(error_of(with_word(idx_images(kRecords), 8, 0), idx_labels(kRecords)),
            "IDX file of images says that it is empty: 50 records of 0 x 3: images");
}

// None of these may allocate what they claim: the sanitizers' limits would end the test.
TEST(Idx, oversized_counts) {
  EXPECT_EQ(error_of(with_word(idx_images(kRecords), 4, 0xffffffffU), idx_labels(kRecords)),
            "IDX file of images is truncated: its header says 4294967295 images of 4 x 3, which "
            "need 51539607556 bytes, but there are 616: images");
  EXPECT_EQ(error_of(idx_images(kRecords), with_word(idx_labels(kRecords), 4, 0xffffffffU)),
            "IDX file of labels is truncated: its header says 4294967295 labels, which need "
            "4294967303 bytes, but there are 58: labels");
  Bytes huge = idx_images(kRecords);
  for (const std::size_t at : {4, 8, 12}) huge = with_word(huge, at, 0xffffffffU);
  EXPECT_EQ(error_of(huge, idx_labels(kRecords)),
            "IDX file of images claims more bytes than a file can have: 4294967295 records of "
            "4294967295 x 4294967295: images");
}

TEST(Idx, labels_out_of_range_by_record) {
  std::vector<std::uint8_t> labels(kRecords, 9);
  labels[37] = 10;
  EXPECT_EQ(error_of(idx_images(kRecords), idx_labels(labels)),
            "label out of range: record 37 has label 10, but there are 10 classes: labels");
}

TEST(Idx, counts_that_differ) {
  EXPECT_EQ(error_of(idx_images(kRecords), idx_labels(kRecords + 1)),
            "images and labels differ in number: 50 images in images, 51 labels in labels");
}

TEST(Idx, absent_files_and_folders) {
  MemoryStore store;
  store.put("labels", idx_labels(kRecords));
  const auto absent = open(store);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().kind, ErrorKind::not_found);
  EXPECT_EQ(absent.error().message,
            "cannot open: No such file or directory: images (nor images.gz)");
  store.put("images/a", idx_images(kRecords));
  const auto folder = open(store);
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().message, "cannot open: it is a folder, not a file: images");
}

TEST(Idx, damaged_gzip) {
  const Bytes good = gzip(idx_images(kRecords));
  MemoryStore store;
  store.put("labels", idx_labels(kRecords));
  const auto error = [&store](const Bytes& bytes) {
    store.put("images.gz", bytes);
    const auto reader = open(store);
    return reader ? std::string("no error") : reader.error().message;
  };
  EXPECT_EQ(error(resized(good, -1)), "gzip file ends too early: after " +
                                          std::to_string(good.size() - 1) +
                                          " compressed bytes: images.gz");
  EXPECT_EQ(error({}), "gzip file ends too early: after 0 compressed bytes: images.gz");
  EXPECT_THAT(
      error(idx_images(kRecords)),
      ::testing::AllOf(::testing::StartsWith("gzip file is damaged: incorrect header check"),
                       ::testing::EndsWith(": images.gz")));
  Bytes flipped = good;
  flipped[flipped.size() - 6] ^= std::byte{1};  // in the checksum
  EXPECT_THAT(error(flipped), ::testing::StartsWith("gzip file is damaged: incorrect data check"));
  Bytes trailing = good;
  trailing.resize(good.size() + 5);
  EXPECT_THAT(error(trailing), ::testing::StartsWith("gzip file is damaged: "));
}

// Whatever bit of a small file is flipped: an error of one line or a reader that reads to its end.
TEST(Idx, any_flipped_bit_is_survived) {
  const Bytes images = idx_images(3);
  const Bytes compressed = gzip(images);
  for (const bool gz : {false, true}) {
    const Bytes& good = gz ? compressed : images;
    for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
      Bytes bad = good;
      bad[bit / 8] ^= std::byte{1} << (bit % 8);
      MemoryStore store;
      store.put(gz ? "images.gz" : "images", bad);
      store.put("labels", idx_labels(3));
      auto reader = open(store);
      if (!reader) {
        EXPECT_FALSE(reader.error().message.empty());
        continue;
      }
      const auto span = (*reader)->next(10);
      ASSERT_TRUE(span);
      EXPECT_EQ(span->count(), 3U);
    }
  }
}

// Every read of an opening and reading through fails once, and is cut short once.
TEST(Idx, failing_reads_are_passed_on) {
  MemoryStore memory;
  memory.put("images", idx_images(kRecords));
  memory.put("labels", idx_labels(kRecords));
  const auto read_all = [](storage::Store& store) -> base::Result<std::uint64_t> {
    DLOBD_TRY(reader, open(store));
    std::uint64_t records = 0;
    for (;;) {
      DLOBD_TRY(span, reader->next(20));
      if (span.count() == 0) return records;
      records += span.count();
    }
  };
  storage::FaultyStore counted(memory, {});
  EXPECT_EQ(read_all(counted), kRecords);
  const std::uint64_t reads = counted.calls(storage::Operation::read);
  // Two headers, the labels, the images in three spans and the end, which asks for no byte.
  EXPECT_EQ(reads, 7U);
  for (std::uint64_t nth = 1; nth < reads; ++nth) {
    storage::FaultyStore failing(memory,
                                 {{storage::Operation::read, nth, storage::Fault::Effect::fail}});
    const auto failed = read_all(failing);
    ASSERT_FALSE(failed) << nth;
    EXPECT_EQ(failed.error().kind, ErrorKind::io_error);
    storage::FaultyStore shortening(
        memory, {{storage::Operation::read, nth, storage::Fault::Effect::shorten}});
    const auto shortened = read_all(shortening);
    // Half of the labels' header's 16 bytes is all of that header.
    EXPECT_EQ(shortened.has_value(), nth == 2) << nth;
  }
}

TEST(Idx, reads_local_files) {
  const TempFolder folder;
  dlobd::testing::write_file(folder.file("images"), idx_images(kRecords));
  dlobd::testing::write_file(folder.file("labels.gz"), gzip(idx_labels(kRecords)));
  storage::LocalStore store;
  auto reader = open_idx(store, {folder.file("images")}, folder.file("labels"), 10);
  ASSERT_TRUE(reader) << reader.error().message;
  expect_records(**reader, 0, kRecords, 8);
  const auto as_file = open_idx(store, {folder.path()}, folder.file("labels"), 10);
  ASSERT_FALSE(as_file);
  EXPECT_EQ(as_file.error().message, "cannot open: it is a folder, not a file: " + folder.path());
}

}  // namespace
}  // namespace dlobd::records
