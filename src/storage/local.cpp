#include "storage/local.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/descriptor.h"
#include "base/folders.h"

namespace dlobd::storage {
namespace {

using base::Descriptor;
using base::ErrorKind;

base::Failure failure(int error_number, const std::string& what, const std::string& path) {
  return base::fail(system_error(error_number, what, path));
}

class LocalFile final : public File {
 public:
  LocalFile(Descriptor descriptor, std::string path, std::uint64_t size)
      : descriptor_(std::move(descriptor)), path_(std::move(path)), size_(size) {}

  [[nodiscard]] std::uint64_t size() const override { return size_; }

  base::Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> into) override {
    std::size_t done = 0;
    while (done < into.size()) {
      const auto got = ::pread(descriptor_.get(), into.data() + done, into.size() - done,
                               static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return failure(errno, "cannot read", path_);
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

 private:
  Descriptor descriptor_;
  std::string path_;
  std::uint64_t size_;
};

class LocalWriter final : public Writer {
 public:
  LocalWriter(Descriptor descriptor, std::string path)
      : descriptor_(std::move(descriptor)), path_(std::move(path)) {}

  base::Result<void> append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const auto put = ::write(descriptor_.get(), bytes.data(), bytes.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return failure(errno, "cannot write", path_);
      bytes = bytes.subspan(static_cast<std::size_t>(put));
    }
    return {};
  }

  base::Result<void> sync() override {
    if (::fsync(descriptor_.get()) != 0) return failure(errno, "cannot sync", path_);
    return {};
  }

 private:
  Descriptor descriptor_;
  std::string path_;
};

std::string folder_of(const std::string& path) {
  const auto slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool is_folder(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

base::Error system_error(int error_number, const std::string& what, const std::string& path) {
  const ErrorKind kind = error_number == ENOENT ? ErrorKind::not_found : ErrorKind::io_error;
  const std::string reason = error_number == EISDIR ? "it is a folder, not a file"
                                                    : std::generic_category().message(error_number);
  return {kind, what + ": " + reason + ": " + path};
}

base::Result<std::unique_ptr<File>> LocalStore::open(const std::string& path) {
  // Without O_NONBLOCK a named pipe would wait for its writer.
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!descriptor) return failure(errno, "cannot open", path);
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) return failure(errno, "cannot open", path);
  if (S_ISDIR(status.st_mode)) return failure(EISDIR, "cannot open", path);
  if (!S_ISREG(status.st_mode))
    return base::fail(ErrorKind::io_error, "cannot open: it is not a regular file: " + path);
  return std::make_unique<LocalFile>(std::move(descriptor), path,
                                     static_cast<std::uint64_t>(status.st_size));
}

base::Result<std::vector<Entry>> LocalStore::list(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(folder.c_str()), ::closedir);
  if (!stream) return failure(errno, "cannot list", folder);
  const std::string prefix = folder.ends_with('/') ? folder : folder + "/";
  std::vector<Entry> entries;
  for (;;) {
    errno = 0;
    const dirent* item = ::readdir(stream.get());
    if (!item) {
      if (errno != 0) return failure(errno, "cannot list", folder);
      break;
    }
    const std::string name = item->d_name;
    if (name == "." || name == "..") continue;
    struct stat status {};
    // What vanished meanwhile, or is a broken link, is not listed.
    if (::fstatat(::dirfd(stream.get()), item->d_name, &status, 0) != 0) continue;
    const bool folder_inside = S_ISDIR(status.st_mode);
    entries.push_back({prefix + name,
                       folder_inside ? 0 : static_cast<std::uint64_t>(status.st_size),
                       folder_inside});
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.path < b.path; });
  return entries;
}

base::Result<std::unique_ptr<Writer>> LocalStore::create(const std::string& path) {
  if (const auto error = base::make_folders(folder_of(path))) {
    return failure(error.value(), "cannot create", path);
  }
  Descriptor descriptor(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644));
  if (!descriptor) return failure(errno, "cannot create", path);
  return std::make_unique<LocalWriter>(std::move(descriptor), path);
}

base::Result<void> LocalStore::rename(const std::string& from, const std::string& to) {
  if (is_folder(to)) return failure(EISDIR, "cannot rename " + from, to);
  if (::rename(from.c_str(), to.c_str()) != 0) return failure(errno, "cannot rename " + from, to);
  const std::string folder = folder_of(to);
  if (const auto error = base::sync_folder(folder)) {
    return failure(error.value(), "cannot sync the folder", folder);
  }
  return {};
}

base::Result<void> LocalStore::remove(const std::string& path) {
  if (::unlink(path.c_str()) != 0) return failure(errno, "cannot remove", path);
  return {};
}

}  // namespace dlobd::storage
