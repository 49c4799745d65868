// Where bytes live. A Store opens and lists; an open File reads at an offset. WritableStore is the
// second, optional ability. Calls block; they are made on the feed's thread, never on a loop's.
// Errors: not_found, io_error; each names the path and what was tried.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace dlobd::storage {

class File {
 public:
  virtual ~File() = default;
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  // Fills `into` from `offset`. Returns the bytes read: less than asked only at the end of the
  // file.
  virtual base::Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> into) = 0;
};

struct Entry {
  std::string path;
  std::uint64_t size_bytes = 0;
  bool is_folder = false;
};

class Store {
 public:
  virtual ~Store() = default;
  virtual base::Result<std::unique_ptr<File>> open(const std::string& path) = 0;
  // What lies directly in a folder, sorted by path.
  virtual base::Result<std::vector<Entry>> list(const std::string& folder) = 0;
};

// Appends; bytes are safe from a crash only after sync().
class Writer {
 public:
  virtual ~Writer() = default;
  virtual base::Result<void> append(std::span<const std::byte> bytes) = 0;
  virtual base::Result<void> sync() = 0;
};

class WritableStore : public Store {
 public:
  // Makes the folders above it. Fails if the path exists: nothing is overwritten.
  virtual base::Result<std::unique_ptr<Writer>> create(const std::string& path) = 0;
  // Atomic; the target may exist (it is replaced) if it is a file. Syncs the folder too.
  virtual base::Result<void> rename(const std::string& from, const std::string& to) = 0;
  virtual base::Result<void> remove(const std::string& path) = 0;
};

}  // namespace dlobd::storage
