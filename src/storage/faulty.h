// A store that fails where a test wants it to. It passes everything on to another store, counts the
// calls of each operation over all its files, and breaks those that a Fault names: `fail` returns
// an io_error and does nothing; `shorten` lets half of the bytes through (a read then returns too
// few, an append writes half and fails, as on a full disk). Threads: one at a time.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "storage/store.h"

namespace dlobd::storage {

enum class Operation { open, list, read, create, append, sync, rename, remove };
inline constexpr std::size_t kOperations = 8;

struct Fault {
  enum class Effect { fail, shorten };  // shorten: only read and append

  Operation operation = Operation::read;
  std::uint64_t nth = 1;  // from 1
  Effect effect = Effect::fail;
};

class FaultyStore final : public WritableStore {
 public:
  // `inner` must outlive this store, and this store its files and writers.
  FaultyStore(WritableStore& inner, std::vector<Fault> faults);

  // How often an operation was called.
  [[nodiscard]] std::uint64_t calls(Operation operation) const;

  base::Result<std::unique_ptr<File>> open(const std::string& path) override;
  base::Result<std::vector<Entry>> list(const std::string& folder) override;
  base::Result<std::unique_ptr<Writer>> create(const std::string& path) override;
  base::Result<void> rename(const std::string& from, const std::string& to) override;
  base::Result<void> remove(const std::string& path) override;

 private:
  class FaultyFile;
  class FaultyWriter;

  // Counts a call; the effect that it shall have, if any.
  std::optional<Fault::Effect> strike(Operation operation);
  base::Result<void> pass(Operation operation, const std::string& path);
  base::Error error(Operation operation, const std::string& path) const;

  WritableStore& inner_;
  std::vector<Fault> faults_;
  std::array<std::uint64_t, kOperations> calls_{};
};

std::string_view name(Operation operation);

}  // namespace dlobd::storage
