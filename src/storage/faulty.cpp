#include "storage/faulty.h"

#include <string>
#include <utility>

#include "base/check.h"

namespace dlobd::storage {

using Effect = Fault::Effect;

std::string_view name(Operation operation) {
  switch (operation) {
    case Operation::open: return "open";
    case Operation::list: return "list";
    case Operation::read: return "read";
    case Operation::create: return "create";
    case Operation::append: return "append";
    case Operation::sync: return "sync";
    case Operation::rename: return "rename";
    case Operation::remove: return "remove";
  }
  return "unknown";
}

class FaultyStore::FaultyFile final : public File {
 public:
  FaultyFile(FaultyStore& store, std::unique_ptr<File> inner, std::string path)
      : store_(store), inner_(std::move(inner)), path_(std::move(path)) {}

  [[nodiscard]] std::uint64_t size() const override { return inner_->size(); }

  base::Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> into) override {
    const auto effect = store_.strike(Operation::read);
    if (effect == Effect::fail) return base::fail(store_.error(Operation::read, path_));
    if (effect == Effect::shorten) into = into.first(into.size() / 2);
    return inner_->read_at(offset, into);
  }

 private:
  FaultyStore& store_;
  std::unique_ptr<File> inner_;
  std::string path_;
};

class FaultyStore::FaultyWriter final : public Writer {
 public:
  FaultyWriter(FaultyStore& store, std::unique_ptr<Writer> inner, std::string path)
      : store_(store), inner_(std::move(inner)), path_(std::move(path)) {}

  base::Result<void> append(std::span<const std::byte> bytes) override {
    const auto effect = store_.strike(Operation::append);
    if (!effect) return inner_->append(bytes);
    if (effect == Effect::shorten) {
      DLOBD_TRY_VOID(half, inner_->append(bytes.first(bytes.size() / 2)));
    }
    return base::fail(store_.error(Operation::append, path_));
  }

  base::Result<void> sync() override {
    DLOBD_TRY_VOID(passed, store_.pass(Operation::sync, path_));
    return inner_->sync();
  }

 private:
  FaultyStore& store_;
  std::unique_ptr<Writer> inner_;
  std::string path_;
};

FaultyStore::FaultyStore(WritableStore& inner, std::vector<Fault> faults)
    : inner_(inner), faults_(std::move(faults)) {
  for (const Fault& fault : faults_) {
    const bool has_bytes =
        fault.operation == Operation::read || fault.operation == Operation::append;
    CHECK(fault.effect == Effect::fail || has_bytes,
          "only a read or an append can be shortened: {}", name(fault.operation));
  }
}

std::uint64_t FaultyStore::calls(Operation operation) const {
  return calls_[static_cast<std::size_t>(operation)];
}

std::optional<Effect> FaultyStore::strike(Operation operation) {
  const std::uint64_t call = ++calls_[static_cast<std::size_t>(operation)];
  for (const Fault& fault : faults_) {
    if (fault.operation == operation && fault.nth == call) return fault.effect;
  }
  return std::nullopt;
}

base::Error FaultyStore::error(Operation operation, const std::string& path) const {
  return {base::ErrorKind::io_error, "fault set for this test: " + std::string(name(operation)) +
                                         " " + std::to_string(calls(operation)) + ": " + path};
}

base::Result<void> FaultyStore::pass(Operation operation, const std::string& path) {
  if (strike(operation)) return base::fail(error(operation, path));
  return {};
}

base::Result<std::unique_ptr<File>> FaultyStore::open(const std::string& path) {
  DLOBD_TRY_VOID(passed, pass(Operation::open, path));
  DLOBD_TRY(file, inner_.open(path));
  return std::make_unique<FaultyFile>(*this, std::move(file), path);
}

base::Result<std::vector<Entry>> FaultyStore::list(const std::string& folder) {
  DLOBD_TRY_VOID(passed, pass(Operation::list, folder));
  return inner_.list(folder);
}

base::Result<std::unique_ptr<Writer>> FaultyStore::create(const std::string& path) {
  DLOBD_TRY_VOID(passed, pass(Operation::create, path));
  DLOBD_TRY(writer, inner_.create(path));
  return std::make_unique<FaultyWriter>(*this, std::move(writer), path);
}

base::Result<void> FaultyStore::rename(const std::string& from, const std::string& to) {
  DLOBD_TRY_VOID(passed, pass(Operation::rename, from));
  return inner_.rename(from, to);
}

base::Result<void> FaultyStore::remove(const std::string& path) {
  DLOBD_TRY_VOID(passed, pass(Operation::remove, path));
  return inner_.remove(path);
}

}  // namespace dlobd::storage
