#include "storage/memory.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "storage/local.h"

namespace dlobd::storage {
namespace {

using Bytes = std::vector<std::byte>;

base::Failure memory_failure(int error_number, const std::string& what, const std::string& path) {
  return base::fail(system_error(error_number, what, path));
}

class MemoryFile final : public File {
 public:
  explicit MemoryFile(std::shared_ptr<const Bytes> bytes) : bytes_(std::move(bytes)) {}

  [[nodiscard]] std::uint64_t size() const override { return bytes_->size(); }

  base::Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> into) override {
    if (offset >= bytes_->size()) return std::size_t{0};
    const std::size_t count = std::min<std::uint64_t>(into.size(), bytes_->size() - offset);
    std::copy_n(bytes_->begin() + static_cast<std::ptrdiff_t>(offset), count, into.begin());
    return count;
  }

 private:
  std::shared_ptr<const Bytes> bytes_;  // second owner: the store
};

class MemoryWriter final : public Writer {
 public:
  explicit MemoryWriter(std::shared_ptr<Bytes> bytes) : bytes_(std::move(bytes)) {}

  base::Result<void> append(std::span<const std::byte> bytes) override {
    bytes_->insert(bytes_->end(), bytes.begin(), bytes.end());
    return {};
  }
  base::Result<void> sync() override { return {}; }

 private:
  std::shared_ptr<Bytes> bytes_;  // second owner: the store
};

std::string as_prefix(const std::string& folder) {
  return folder.empty() || folder.ends_with('/') ? folder : folder + "/";
}

}  // namespace

void MemoryStore::put(const std::string& path, std::span<const std::byte> bytes) {
  files_[path] = std::make_shared<Bytes>(bytes.begin(), bytes.end());
}

bool MemoryStore::is_folder(const std::string& path) const {
  const std::string prefix = as_prefix(path);
  const auto found = files_.lower_bound(prefix);
  return found != files_.end() && found->first.starts_with(prefix);
}

base::Result<std::unique_ptr<File>> MemoryStore::open(const std::string& path) {
  const auto found = files_.find(path);
  if (found == files_.end())
    return memory_failure(is_folder(path) ? EISDIR : ENOENT, "cannot open", path);
  return std::make_unique<MemoryFile>(found->second);
}

base::Result<std::vector<Entry>> MemoryStore::list(const std::string& folder) {
  const std::string prefix = as_prefix(folder);
  if (files_.contains(folder)) return memory_failure(ENOTDIR, "cannot list", folder);
  if (!folder.empty() && !is_folder(folder)) return memory_failure(ENOENT, "cannot list", folder);
  std::vector<Entry> entries;
  for (auto it = files_.lower_bound(prefix); it != files_.end(); ++it) {
    const auto& [path, bytes] = *it;
    if (!path.starts_with(prefix)) break;
    const auto slash = path.find('/', prefix.size());
    if (slash == std::string::npos) {
      entries.push_back({path, bytes->size(), false});
      continue;
    }
    const std::string inside = path.substr(0, slash);
    if (entries.empty() || entries.back().path != inside) entries.push_back({inside, 0, true});
  }
  // "a-b" sorts before "a/c" but after "a".
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.path < b.path; });
  return entries;
}

base::Result<std::unique_ptr<Writer>> MemoryStore::create(const std::string& path) {
  if (files_.contains(path) || is_folder(path))
    return memory_failure(EEXIST, "cannot create", path);
  auto bytes = std::make_shared<Bytes>();
  files_[path] = bytes;
  return std::make_unique<MemoryWriter>(std::move(bytes));
}

base::Result<void> MemoryStore::rename(const std::string& from, const std::string& to) {
  const auto found = files_.find(from);
  if (found == files_.end()) return memory_failure(ENOENT, "cannot rename " + from, to);
  if (is_folder(to)) return memory_failure(EISDIR, "cannot rename " + from, to);
  if (from == to) return {};
  auto bytes = std::move(found->second);
  files_.erase(found);
  files_[to] = std::move(bytes);
  return {};
}

base::Result<void> MemoryStore::remove(const std::string& path) {
  if (files_.erase(path) > 0) return {};
  return memory_failure(is_folder(path) ? EISDIR : ENOENT, "cannot remove", path);
}

}  // namespace dlobd::storage
