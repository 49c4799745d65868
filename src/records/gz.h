// A gzip file read as if it were not compressed. Reading forward inflates as it goes, with buffers
// of a fixed size; reading backward starts again. Nothing is allocated by what the file claims.
// Errors: corrupt_data for bytes that are not gzip, end too early or fail their checksum.
// Threads: one at a time.
#pragma once

#include <memory>

#include "storage/store.h"

namespace dlobd::records {

class GzFile final : public storage::File {
 public:
  GzFile(std::unique_ptr<storage::File> compressed, std::string path);
  ~GzFile() override;

  // Inflates to the end, or to one byte more than `at_most`: how many bytes there are, at most
  // `at_most` + 1. Checksums are checked on the way. Sets size().
  base::Result<std::uint64_t> measure(std::uint64_t at_most);

  // 0 until measured.
  [[nodiscard]] std::uint64_t size() const override { return size_; }
  base::Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> into) override;

 private:
  struct Stream;

  void rewind();
  // Goes to `offset`, or to the end if there are fewer bytes.
  base::Result<void> skip_to(std::uint64_t offset);
  // The next bytes of the stream: fewer than asked only at its end.
  base::Result<std::size_t> read_on(std::span<std::byte> into);
  // Compressed bytes at hand, read if there are none: 0 at the end of the file.
  base::Result<std::size_t> refill();

  std::unique_ptr<storage::File> compressed_;
  std::string path_;
  std::unique_ptr<Stream> stream_;
  std::uint64_t compressed_position_ = 0;
  std::uint64_t position_ = 0;
  std::uint64_t size_ = 0;
};

}  // namespace dlobd::records
