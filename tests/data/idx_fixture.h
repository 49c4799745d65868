// Small IDX files for tests: bytes of images and labels, raw or gzip, in a temporary folder or a
// memory store. Pixel and label of record i are functions of i, so that a test can tell records
// apart.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <system_error>
#include <vector>

namespace dlobd::testing {

using Bytes = std::vector<std::byte>;

// A folder of its own, removed at the end.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "dlobd-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "cannot make a folder: " << name;
    path_ = name;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline void put_big_endian(Bytes& bytes, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(std::byte(value >> shift & 0xff));
}

// Pixel `pixel` of record `record`: the first three are the record's number.
inline std::uint8_t idx_pixel(std::uint64_t record, std::uint64_t pixel) {
  return static_cast<std::uint8_t>(pixel < 3 ? record >> (8 * pixel) : record * 31 + pixel * 7);
}

inline std::uint8_t idx_label(std::uint64_t record) {
  return static_cast<std::uint8_t>(record % 10);
}

inline Bytes idx_images(std::uint32_t count, std::uint32_t rows = 4, std::uint32_t columns = 3) {
  Bytes bytes;
  for (const std::uint32_t word : {0x803U, count, rows, columns}) put_big_endian(bytes, word);
  for (std::uint32_t record = 0; record < count; ++record) {
    for (std::uint32_t pixel = 0; pixel < rows * columns; ++pixel)
      bytes.push_back(std::byte{idx_pixel(record, pixel)});
  }
  return bytes;
}

inline Bytes idx_labels(const std::vector<std::uint8_t>& labels) {
  Bytes bytes;
  put_big_endian(bytes, 0x801U);
  put_big_endian(bytes, static_cast<std::uint32_t>(labels.size()));
  for (const std::uint8_t label : labels) bytes.push_back(std::byte{label});
  return bytes;
}

inline Bytes idx_labels(std::uint32_t count) {
  std::vector<std::uint8_t> labels;
  for (std::uint32_t record = 0; record < count; ++record) labels.push_back(idx_label(record));
  return idx_labels(labels);
}

inline Bytes gzip(std::span<const std::byte> raw) {
  z_stream zlib{};
  EXPECT_EQ(deflateInit2(&zlib, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY),
            Z_OK);
  Bytes packed(deflateBound(&zlib, raw.size()));
  std::vector<Bytef> input(raw.size());
  for (std::size_t i = 0; i < raw.size(); ++i) input[i] = std::to_integer<Bytef>(raw[i]);
  zlib.next_in = input.data();
  zlib.avail_in = static_cast<uInt>(input.size());
  zlib.next_out = reinterpret_cast<Bytef*>(packed.data());
  zlib.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&zlib, Z_FINISH), Z_STREAM_END);
  packed.resize(zlib.total_out);
  deflateEnd(&zlib);
  return packed;
}

inline void write_file(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  file.close();
  ASSERT_TRUE(file.good()) << path;
}

// An MNIST-like data set in an existing folder, with the names of the MNIST files.
inline void write_idx(const std::string& folder, std::uint32_t train_records,
                      std::uint32_t test_records, std::uint32_t rows = 28,
                      std::uint32_t columns = 28) {
  write_file(folder + "/train-images-idx3-ubyte", idx_images(train_records, rows, columns));
  write_file(folder + "/train-labels-idx1-ubyte", idx_labels(train_records));
  write_file(folder + "/t10k-images-idx3-ubyte", idx_images(test_records, rows, columns));
  write_file(folder + "/t10k-labels-idx1-ubyte", idx_labels(test_records));
}

}  // namespace dlobd::testing
