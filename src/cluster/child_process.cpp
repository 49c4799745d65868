#include "cluster/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>
#include <utility>

#include "cluster/local_launcher.h"

namespace dlobd::cluster {

using base::Descriptor;
using base::ErrorKind;
using base::Result;

namespace {

std::string reason(int error) {
  return std::generic_category().message(error);
}

Result<std::pair<Descriptor, Descriptor>> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return base::fail(ErrorKind::io_error, "cannot make a pipe: " + reason(errno));
  }
  return std::make_pair(Descriptor(ends[0]), Descriptor(ends[1]));
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> all;
  all.reserve(words.size() + 1);
  for (const std::string& word : words) all.push_back(const_cast<char*>(word.c_str()));
  all.push_back(nullptr);
  return all;
}

struct ChildPlan {
  char* const* argv;
  char* const* environment;
  int report;
  int output;
  int listen;
  int complaint;  // closed by a good exec; else errno goes through it
  pid_t launcher;
};

// Runs in the child. Only async-signal-safe calls.
[[noreturn]] void become(const ChildPlan& plan) {
  // Kills itself with the launcher; and the launcher may have gone before that was set.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.launcher) ::_exit(127);
  ::setpgid(0, 0);

  sigset_t none;
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  // Handlers end with exec. Of what is ignored, this is the launcher's own affair; the rest is the
  // wish of whoever started it.
  for (const int number : {SIGPIPE, SIGCHLD}) ::signal(number, SIG_DFL);

  // First out of the way of the numbers that they shall have.
  constexpr int kFree = kListenFd + 1;
  const int report = ::fcntl(plan.report, F_DUPFD_CLOEXEC, kFree);
  const int output = ::fcntl(plan.output, F_DUPFD_CLOEXEC, kFree);
  const int complaint = ::fcntl(plan.complaint, F_DUPFD_CLOEXEC, kFree);
  const int listen = plan.listen < 0 ? -1 : ::fcntl(plan.listen, F_DUPFD_CLOEXEC, kFree);
  const int nothing = ::open("/dev/null", O_RDONLY);
  bool good = report >= 0 && output >= 0 && complaint >= 0 && nothing >= 0;
  good = good && ::dup2(nothing, STDIN_FILENO) >= 0 && ::dup2(output, STDOUT_FILENO) >= 0 &&
         ::dup2(output, STDERR_FILENO) >= 0 && ::dup2(report, kReportFd) >= 0;
  if (plan.listen >= 0) {
    good = good && listen >= 0 && ::dup2(listen, kListenFd) >= 0;
  } else {
    ::close(kListenFd);
  }
  // What the launcher's own parent left open is not for the ranks. A kernel too old refuses: no
  // harm.
  ::close_range(kFree, ~0U, CLOSE_RANGE_CLOEXEC);
  if (good) ::execvpe(plan.argv[0], plan.argv, plan.environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(complaint, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

Result<ChildProcess> start_child(const std::vector<std::string>& argv,
                                 const std::vector<std::string>& environment, int listen_fd) {
  if (argv.empty()) return base::fail(ErrorKind::invalid_argument, "a command without words");
  DLOBD_TRY(report, make_pipe());
  DLOBD_TRY(output, make_pipe());
  DLOBD_TRY(complaint, make_pipe());
  const auto words = pointers(argv);
  const auto entries = pointers(environment);
  ChildPlan plan{};
  plan.argv = words.data();
  plan.environment = entries.data();
  plan.report = report.second.get();
  plan.output = output.second.get();
  plan.listen = listen_fd;
  plan.complaint = complaint.second.get();
  plan.launcher = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return base::fail(ErrorKind::io_error, "cannot fork: " + reason(errno));
  if (pid == 0) become(plan);
  ::setpgid(pid, pid);  // here too, so that it holds as soon as either has run

  complaint.second.reset();
  int error = 0;
  ssize_t count = 0;
  do {
    count = ::read(complaint.first.get(), &error, sizeof error);
  } while (count < 0 && errno == EINTR);
  if (count == sizeof error) {
    ::waitpid(pid, nullptr, 0);
    return base::fail(ErrorKind::io_error,
                      fmt::format("cannot run the program: {}: {}", argv[0], reason(error)));
  }
  ChildProcess child;
  child.pid = pid;
  child.report = std::move(report.first);
  child.output = std::move(output.first);
  ::fcntl(child.report.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(child.output.get(), F_SETFL, O_NONBLOCK);
  return child;
}

}  // namespace dlobd::cluster
