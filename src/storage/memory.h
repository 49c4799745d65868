// Files in memory, for tests and fuzzing. Folders are implied by the paths of the files in them; ""
// is the root. An open File sees what is appended later, and outlives the removal of its path.
// Errors are those of LocalStore. Threads: one at a time, its files and writers included.
#pragma once

#include <map>

#include "storage/store.h"

namespace dlobd::storage {

class MemoryStore final : public WritableStore {
 public:
  // Adds or replaces a file.
  void put(const std::string& path, std::span<const std::byte> bytes);

  base::Result<std::unique_ptr<File>> open(const std::string& path) override;
  base::Result<std::vector<Entry>> list(const std::string& folder) override;
  base::Result<std::unique_ptr<Writer>> create(const std::string& path) override;
  base::Result<void> rename(const std::string& from, const std::string& to) override;
  base::Result<void> remove(const std::string& path) override;

 private:
  using Bytes = std::vector<std::byte>;

  [[nodiscard]] bool is_folder(const std::string& path) const;

  // Second owner: the open files and writers.
  std::map<std::string, std::shared_ptr<Bytes>> files_;
};

}  // namespace dlobd::storage
