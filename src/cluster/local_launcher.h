// Starts N ranks as processes of this host, and sees them to their end. Blocks the calling thread.
//
// Each rank has a process group of its own (a terminal's Ctrl-C reaches the launcher, which passes
// SIGINT, SIGTERM and SIGHUP on), dies with the launcher's thread even when that is killed
// (PR_SET_PDEATHSIG), reads nothing on stdin, and finds two descriptors: kReportFd, its report
// pipe, and on rank 0 kListenFd, a listening socket for the hub. When a rank ends badly, the others
// have `grace` to end by themselves, then SIGTERM, then SIGKILL; ranks that are stopped (SIGSTOP)
// go as soon as all the others have ended. No process of any rank's group is left when the call
// returns. A signal that this process ignores (nohup) is neither taken nor passed on, and its ranks
// ignore it too.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace dlobd::cluster {

inline constexpr int kReportFd = 3;
inline constexpr int kListenFd = 4;

struct LaunchOptions {
  int ranks = 1;
  // The hub's address; port 0 lets the system choose.
  std::string listen = "127.0.0.1:0";
  // argv of a rank; argv[0] is the path of the program. `rendezvous` is the bound address.
  std::function<std::vector<std::string>(int rank, const std::string& rendezvous)> command;
  // The rank's whole environment, "NAME=value"; without it there is none.
  std::function<std::vector<std::string>(int rank)> environment;
  // Show each line of a rank at once, behind "[rank 1] ", on stderr. Otherwise it is kept.
  bool verbose = false;
  // From the first bad end until SIGTERM goes to the others.
  base::Duration grace = std::chrono::seconds(15);
  // From SIGTERM until SIGKILL.
  base::Duration kill_grace = std::chrono::seconds(3);
};

// All are called on the calling thread; each may be empty.
struct LaunchCallbacks {
  // A blob of the rank's report pipe. The last ones come after the rank's end.
  std::function<void(int rank, std::vector<std::byte> blob)> on_report;
  // A line of the rank's stdout or stderr, without its end. Replaces the showing on stderr.
  std::function<void(int rank, std::string_view line)> on_line;
  std::function<void(int rank, int pid)> on_started;
};

struct RankExit {
  int exit_code = -1;     // -1: ended by a signal
  int signal = 0;         // 0: ended by itself
  bool put_down = false;  // by this launcher's SIGTERM or SIGKILL, because another had failed
  std::string output;     // the last kKeptOutputBytes of stdout and stderr
  [[nodiscard]] bool good() const { return exit_code == 0; }
  // "exit code 1", "killed by signal 9 (Killed)"
  [[nodiscard]] std::string describe() const;
};

inline constexpr std::size_t kKeptOutputBytes = 64 << 10;

struct LaunchOutcome {
  std::vector<RankExit> ranks;
  int first_bad = -1;      // the rank that ended badly first; -1: none
  int interrupted_by = 0;  // the first signal that was passed on
  [[nodiscard]] bool good() const { return first_bad < 0; }
};

// io_error or invalid_argument when the ranks could not be started; those already started are
// ended. While it runs, SIGCHLD and those of SIGINT, SIGTERM, SIGHUP that are not ignored are its
// own, of the calling thread;
// other threads of the process should have them blocked. A second signal of the terminal puts the
// ranks down at once.
base::Result<LaunchOutcome> launch_local(const LaunchOptions& options,
                                         const LaunchCallbacks& callbacks);

}  // namespace dlobd::cluster
