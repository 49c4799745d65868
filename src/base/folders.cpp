#include "base/folders.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/descriptor.h"

namespace dlobd::base {
namespace {

std::error_code last_error() {
  return {errno, std::generic_category()};
}

}  // namespace

std::error_code sync_folder(const std::filesystem::path& folder) {
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return last_error();
  // Some file systems cannot sync a folder and say so by EINVAL.
  if (::fsync(opened.get()) != 0 && errno != EINVAL) return last_error();
  return {};
}

std::error_code make_folders(const std::filesystem::path& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) == 0) {
    return S_ISDIR(status.st_mode) ? std::error_code()
                                   : std::make_error_code(std::errc::not_a_directory);
  }
  if (errno != ENOENT) return last_error();
  const auto parent = folder.has_parent_path() ? folder.parent_path() : std::filesystem::path(".");
  if (auto error = make_folders(parent)) return error;
  // Another process may make it at the same time; "a/b/" has been made as the parent of what is not
  // there.
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) return last_error();
  return sync_folder(parent);
}

}  // namespace dlobd::base
