// Finding the parts of an MNIST-like folder.
#include "records/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/idx_fixture.h"
#include "storage/local.h"
#include "storage/memory.h"

namespace dlobd::records {
namespace {

using base::ErrorKind;
using dlobd::testing::gzip;
using dlobd::testing::idx_images;
using dlobd::testing::idx_labels;
using dlobd::testing::TempFolder;
using ::testing::HasSubstr;

TEST(Dataset, knows_its_parts) {
  const TempFolder folder;
  dlobd::testing::write_idx(folder.path(), 30, 20);
  storage::LocalStore store;
  const auto dataset = open_dataset(store, folder.path());
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->classes(), 10);
  EXPECT_EQ(dataset->shape(), (Shape{1, 28, 28}));
  EXPECT_EQ(dataset->count(Part::train), 30U);
  EXPECT_EQ(dataset->count(Part::test), 20U);
  for (const Part part : {Part::train, Part::test}) {
    auto reader = dataset->open(part);
    ASSERT_TRUE(reader);
    EXPECT_EQ((*reader)->count(), dataset->count(part));
    const auto span = (*reader)->next(100);
    ASSERT_TRUE(span);
    EXPECT_EQ(span->count(), dataset->count(part));
  }
}

TEST(Dataset, takes_either_spelling_raw_or_compressed) {
  for (const std::string_view separator : {"-", "."}) {
    for (const bool compressed : {false, true}) {
      storage::MemoryStore store;
      for (const std::string_view prefix : {"train", "t10k"}) {
        const auto put = [&](std::string_view what, std::string_view dimensions,
                             const dlobd::testing::Bytes& bytes) {
          const std::string path = "mnist/" + std::string(prefix) + "-" + std::string(what) +
                                   std::string(separator) + std::string(dimensions) + "-ubyte";
          store.put(compressed ? path + ".gz" : path, compressed ? gzip(bytes) : bytes);
        };
        put("images", "idx3", idx_images(5));
        put("labels", "idx1", idx_labels(5));
      }
      for (const std::string folder : {"mnist", "mnist/"}) {
        const auto dataset = open_dataset(store, folder);
        ASSERT_TRUE(dataset) << dataset.error().message;
        EXPECT_EQ(dataset->count(Part::test), 5U);
      }
    }
  }
}

TEST(Dataset, its_digest_names_the_content) {
  const auto digest = [](const dlobd::testing::Bytes& images, const dlobd::testing::Bytes& labels,
                         bool compressed) {
    storage::MemoryStore store;
    const std::string end = compressed ? ".gz" : "";
    const auto put = [&](const std::string& path, const dlobd::testing::Bytes& bytes) {
      store.put(path + end, compressed ? gzip(bytes) : bytes);
    };
    put("d/train-images-idx3-ubyte", images);
    put("d/train-labels-idx1-ubyte", labels);
    put("d/t10k-images-idx3-ubyte", idx_images(5));
    put("d/t10k-labels-idx1-ubyte", idx_labels(5));
    const auto dataset = open_dataset(store, "d");
    return dataset ? dataset->digest() : dataset.error().message;
  };
  const std::string raw = digest(idx_images(5), idx_labels(5), false);
  EXPECT_THAT(raw, ::testing::StartsWith("5 + 5 of 1 x 4 x 3, "));
  EXPECT_EQ(raw, digest(idx_images(5), idx_labels(5), true));
  auto labels = idx_labels(5);
  labels.back() = labels.back() == std::byte{0} ? std::byte{1} : std::byte{0};
  EXPECT_NE(raw, digest(idx_images(5), labels, false));
  auto images = idx_images(5);
  images.back() ^= std::byte{1};
  EXPECT_NE(raw, digest(images, idx_labels(5), false));
}

TEST(Dataset, a_missing_folder_says_how_to_get_one) {
  storage::LocalStore store;
  const auto dataset = open_dataset(store, "/nowhere/mnist");
  ASSERT_FALSE(dataset);
  EXPECT_EQ(dataset.error().kind, ErrorKind::not_found);
  EXPECT_EQ(
      dataset.error().message,
      "data set is not there: no folder of this name: /nowhere/mnist (`make setup` puts MNIST "
      "into data/mnist)");
}

TEST(Dataset, a_missing_file_says_which_names_were_looked_for) {
  const TempFolder folder;
  dlobd::testing::write_idx(folder.path(), 3, 3);
  storage::LocalStore store;
  ASSERT_TRUE(store.remove(folder.file("t10k-labels-idx1-ubyte")));
  const auto dataset = open_dataset(store, folder.path());
  ASSERT_FALSE(dataset);
  EXPECT_EQ(dataset.error().kind, ErrorKind::not_found);
  EXPECT_EQ(dataset.error().message,
            "data set lacks a file: none of t10k-labels-idx1-ubyte, t10k-labels.idx1-ubyte, "
            "t10k-labels-idx1-ubyte.gz, t10k-labels.idx1-ubyte.gz: " +
                folder.path() + " (`make setup` puts MNIST into data/mnist)");
}

TEST(Dataset, a_file_is_not_a_folder) {
  const TempFolder folder;
  dlobd::testing::write_file(folder.file("mnist"), idx_images(1));
  storage::LocalStore store;
  const auto dataset = open_dataset(store, folder.file("mnist"));
  ASSERT_FALSE(dataset);
  EXPECT_EQ(dataset.error().message, "cannot list: Not a directory: " + folder.file("mnist"));
}

TEST(Dataset, bad_files_are_refused_when_it_is_opened) {
  const TempFolder folder;
  dlobd::testing::write_idx(folder.path(), 3, 3);
  dlobd::testing::write_file(folder.file("t10k-labels-idx1-ubyte"),
                             idx_labels(std::vector<std::uint8_t>{1, 200, 3}));
  storage::LocalStore store;
  const auto dataset = open_dataset(store, folder.path());
  ASSERT_FALSE(dataset);
  EXPECT_THAT(dataset.error().message, HasSubstr("record 1 has label 200"));
}

TEST(Dataset, parts_of_different_shapes_are_refused) {
  const TempFolder folder;
  dlobd::testing::write_idx(folder.path(), 3, 3);
  dlobd::testing::write_file(folder.file("t10k-images-idx3-ubyte"), idx_images(3, 28, 27));
  storage::LocalStore store;
  const auto dataset = open_dataset(store, folder.path());
  ASSERT_FALSE(dataset);
  EXPECT_THAT(dataset.error().message, HasSubstr("28 x 28 and 28 x 27"));
}

}  // namespace
}  // namespace dlobd::records
