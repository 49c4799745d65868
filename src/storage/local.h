// Files of this machine, by pread and write. create() never opens what exists; sync() is fsync;
// create() syncs the folders that it makes and rename() the folder of the target, so that a new
// name survives a crash. Errors:
// not_found for a path that is not there, io_error for the rest; each is one line with the path and
// the system's words ("cannot write: No space left on device: runs/a/run.json"). Threads: a
// LocalStore holds nothing and may be used by any; a File or Writer by one at a time.
#pragma once

#include "storage/store.h"

namespace dlobd::storage {

class LocalStore final : public WritableStore {
 public:
  base::Result<std::unique_ptr<File>> open(const std::string& path) override;
  base::Result<std::vector<Entry>> list(const std::string& folder) override;
  base::Result<std::unique_ptr<Writer>> create(const std::string& path) override;
  base::Result<void> rename(const std::string& from, const std::string& to) override;
  base::Result<void> remove(const std::string& path) override;
};

// The error of a system call that set `error_number`, while doing `what` ("cannot open") to `path`.
base::Error system_error(int error_number, const std::string& what, const std::string& path);

}  // namespace dlobd::storage
