// A data set on disk: a folder that holds a training and a test part. Today's layout is MNIST's,
// which Fashion-MNIST and KMNIST share: {train,t10k}-{images-idx3,labels-idx1}-ubyte, with '.' or
// '-' before "idx", raw or .gz, 10 classes. Opening reads every header, label and a few records, so
// that bad files are refused before training starts. Errors: those of open_idx; a missing file says
// which names were looked for and how to get MNIST.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "records/reader.h"
#include "storage/store.h"

namespace dlobd::records {

enum class Part { train, test };

std::string_view name(Part part);

class Dataset {
 public:
  [[nodiscard]] int classes() const { return classes_; }
  // Of one record; the same in both parts.
  [[nodiscard]] Shape shape() const { return shape_; }
  // Records of a part.
  [[nodiscard]] std::uint64_t count(Part part) const { return files(part).count; }
  // Names the content, as "60000 + 10000 of 1 x 28 x 28, 1f8ac10e": counts, shape, and a checksum
  // of every label and of the first records. Copies of a data set, .gz or not, have the same.
  [[nodiscard]] const std::string& digest() const { return digest_; }
  // A reader of the whole part, at its first record. The store must still be there.
  [[nodiscard]] base::Result<std::unique_ptr<Reader>> open(Part part) const;

 private:
  friend base::Result<Dataset> open_dataset(storage::Store& store, const std::string& folder);

  struct Files {
    std::string images;
    std::string labels;
    std::uint64_t count = 0;
  };

  explicit Dataset(storage::Store& store) : store_(&store) {}
  [[nodiscard]] const Files& files(Part part) const { return part == Part::train ? train_ : test_; }

  storage::Store* store_;
  int classes_ = 10;
  Shape shape_;
  Files train_;
  Files test_;
  std::string digest_;
};

// `store` must outlive the data set.
base::Result<Dataset> open_dataset(storage::Store& store, const std::string& folder);

}  // namespace dlobd::records
