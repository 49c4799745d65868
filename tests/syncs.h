// What a test program syncs, by path. To be included once in a program: it stands in for fsync.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>
#include <system_error>

namespace dlobd::testing {

inline std::set<std::string>& synced_paths() {
  static std::set<std::string> paths;
  return paths;
}

inline bool was_synced(const std::filesystem::path& path) {
  return synced_paths().contains(std::filesystem::canonical(path).string());
}

}  // namespace dlobd::testing

extern "C" int fsync(int fd) {
  std::error_code ignored;
  const auto path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), ignored);
  dlobd::testing::synced_paths().insert(path.string());
  return static_cast<int>(::syscall(SYS_fsync, fd));
}
