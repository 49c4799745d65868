// One rank's process as its launcher sees it: how it starts, and the three pipes that come from it.
// start_child() forks; between fork and exec only calls that are safe there are made. Errors of the
// child before its program runs come back as the launcher's.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace dlobd::cluster {

// A descriptor that closes itself.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    reset(other.release());
    return *this;
  }
  ~Descriptor() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

struct ChildProcess {
  pid_t pid = -1;
  Descriptor report;  // reading ends, non-blocking
  Descriptor output;  // stdout and stderr together
};

// `argv` and `environment` are whole. `listen_fd` becomes kListenFd; -1: none. The child is the
// leader of a new process group, with no signal blocked, and is killed when the calling thread
// ends.
base::Result<ChildProcess> start_child(const std::vector<std::string>& argv,
                                       const std::vector<std::string>& environment, int listen_fd);

// This process's environment with `changes` ("NAME=value") in it.
std::vector<std::string> environment_with(const std::vector<std::string>& changes);

}  // namespace dlobd::cluster
