// One rank's process as its launcher sees it: how it starts, and the three pipes that come from it.
// start_child() forks; between fork and exec only calls that are safe there are made. Errors of the
// child before its program runs come back as the launcher's.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"

namespace dlobd::cluster {

struct ChildProcess {
  pid_t pid = -1;
  base::Descriptor report;  // reading ends, non-blocking
  base::Descriptor output;  // stdout and stderr together
};

// `argv` and `environment` are whole. `listen_fd` becomes kListenFd; -1: none. The child is the
// leader of a new process group, with no signal blocked, and is killed when the calling thread
// ends. SIGPIPE and SIGCHLD have their default action; other ignored signals stay ignored.
base::Result<ChildProcess> start_child(const std::vector<std::string>& argv,
                                       const std::vector<std::string>& environment, int listen_fd);

}  // namespace dlobd::cluster
