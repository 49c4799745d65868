#include "records/dataset.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "records/idx.h"

namespace dlobd::records {
namespace {

using base::ErrorKind;

constexpr int kClasses = 10;
constexpr std::size_t kRecordsOfDigest = 64;

std::string in_folder(const std::string& folder, const std::string& file) {
  return folder.empty() || folder.ends_with('/') ? folder + file : folder + "/" + file;
}

// "train", "images-idx3" -> the spellings that are about.
std::array<std::string, 2> spellings(std::string_view prefix, std::string_view what,
                                     std::string_view dimensions) {
  return {fmt::format("{}-{}-{}-ubyte", prefix, what, dimensions),
          fmt::format("{}-{}.{}-ubyte", prefix, what, dimensions)};
}

base::Failure absent(const std::string& folder, const std::string& observed) {
  return base::fail(
      ErrorKind::not_found,
      fmt::format("{}: {} (`make setup` puts MNIST into data/mnist)", observed, folder));
}

// The path, without ".gz", of the one that `entries` has.
base::Result<std::string> find(const std::vector<storage::Entry>& entries,
                               const std::string& folder, const std::array<std::string, 2>& names) {
  for (const std::string_view ending : {"", ".gz"}) {
    for (const std::string& name : names) {
      const std::string path = in_folder(folder, name);
      for (const storage::Entry& entry : entries) {
        if (entry.path == path + std::string(ending)) return path;
      }
    }
  }
  return absent(folder, fmt::format("data set lacks a file: none of {0}, {1}, {0}.gz, {1}.gz",
                                    names[0], names[1]));
}

// All labels are in memory; of the pixels some records', from the first to the last, must do.
base::Result<void> add_to(uLong& checksum, Reader& reader) {
  const std::span<const std::uint8_t> labels = reader.labels();
  checksum = crc32_z(checksum, labels.data(), labels.size());
  const std::uint64_t taken = std::min<std::uint64_t>(kRecordsOfDigest, reader.count());
  for (std::uint64_t i = 0; i < taken; ++i) {
    DLOBD_TRY_VOID(found, reader.seek(taken == 1 ? 0 : i * (reader.count() - 1) / (taken - 1)));
    DLOBD_TRY(record, reader.next(1));
    checksum = crc32_z(checksum, reinterpret_cast<const Bytef*>(record.values.data()),
                       record.values.size());
  }
  return {};
}

}  // namespace

std::string_view name(Part part) {
  return part == Part::train ? "train" : "test";
}

base::Result<std::unique_ptr<Reader>> Dataset::open(Part part) const {
  const Files& paths = files(part);
  return open_idx(*store_, Split{paths.images}, paths.labels, classes_);
}

base::Result<Dataset> open_dataset(storage::Store& store, const std::string& folder) {
  const auto entries = store.list(folder);
  if (!entries) {
    if (entries.error().kind != ErrorKind::not_found) return base::fail(entries.error());
    return absent(folder, "data set is not there: no folder of this name");
  }
  Dataset dataset(store);
  dataset.classes_ = kClasses;
  uLong checksum = crc32_z(0, nullptr, 0);
  for (const Part part : {Part::train, Part::test}) {
    Dataset::Files& paths = part == Part::train ? dataset.train_ : dataset.test_;
    const std::string_view prefix = part == Part::train ? "train" : "t10k";
    DLOBD_TRY(images, find(*entries, folder, spellings(prefix, "images", "idx3")));
    DLOBD_TRY(labels, find(*entries, folder, spellings(prefix, "labels", "idx1")));
    paths.images = images;
    paths.labels = labels;
    DLOBD_TRY(reader, dataset.open(part));
    paths.count = reader->count();
    DLOBD_TRY_VOID(read, add_to(checksum, *reader));
    if (part == Part::train) dataset.shape_ = reader->shape();
    if (reader->shape() != dataset.shape_)
      return base::fail(
          ErrorKind::corrupt_data,
          fmt::format("training and test images differ in shape: {} x {} and {} x {}: {}",
                      dataset.shape_.height, dataset.shape_.width, reader->shape().height,
                      reader->shape().width, folder));
  }
  const Shape& shape = dataset.shape_;
  dataset.digest_ =
      fmt::format("{} + {} of {} x {} x {}, {:08x}", dataset.train_.count, dataset.test_.count,
                  shape.channels, shape.height, shape.width, checksum);
  return dataset;
}

}  // namespace dlobd::records
