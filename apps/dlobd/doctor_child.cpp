#include "doctor_child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

namespace dlobd::app {
namespace {

constexpr std::size_t kMaxOutputBytes = 4 << 20;
constexpr int kCannotRun = 127;

base::Failure unavailable(std::string message) {
  return base::fail(base::ErrorKind::unavailable, std::move(message));
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// Reads until the other end closes. False: not in time, or too much.
bool read_until(int fd, base::Time deadline, std::string& text) {
  std::array<char, 4096> buffer{};
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - base::steady_now());
    if (left.count() <= 0 || text.size() > kMaxOutputBytes) return false;
    pollfd readable{fd, POLLIN, 0};
    if (::poll(&readable, 1, static_cast<int>(left.count()) + 1) <= 0) continue;
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

// `body` runs in the child with the pipe's end to write to, and returns its exit status.
base::Result<std::string> run(const std::function<int(int)>& body, base::Duration timeout) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return unavailable(fmt::format("no pipe: {}", std::strerror(errno)));
  const pid_t child = ::fork();
  if (child < 0) {
    const int error = errno;
    ::close(ends[0]);
    ::close(ends[1]);
    return unavailable(fmt::format("no child process: {}", std::strerror(error)));
  }
  if (child == 0) {
    // A group of its own, so that what it starts can be ended with it.
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(body(ends[1]));
  }
  ::close(ends[1]);
  std::string text;
  const bool ended = read_until(ends[0], base::steady_now() + timeout, text);
  ::close(ends[0]);
  if (!ended) {
    ::kill(-child, SIGKILL);
    ::kill(child, SIGKILL);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!ended) {
    return unavailable(fmt::format("it did not end within {:.0f} s",
                                   std::chrono::duration<double>(timeout).count()));
  }
  if (WIFSIGNALED(status)) {
    return unavailable(fmt::format("it was ended by signal {} ({})", WTERMSIG(status),
                                   ::strsignal(WTERMSIG(status))));
  }
  if (WEXITSTATUS(status) == kCannotRun) return unavailable("it cannot be run");
  if (WEXITSTATUS(status) != 0) {
    return unavailable(fmt::format("it ended with exit status {}", WEXITSTATUS(status)));
  }
  return text;
}

}  // namespace

base::Result<std::string> in_child(const std::function<std::string()>& work,
                                   base::Duration timeout) {
  return run(
      [&](int pipe) {
        // Libraries may print what belongs to nobody here.
        const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
        ::dup2(nowhere, STDOUT_FILENO);
        ::dup2(nowhere, STDERR_FILENO);
        write_all(pipe, work());
        return 0;
      },
      timeout);
}

base::Result<std::string> output_of(const std::vector<std::string>& command,
                                    base::Duration timeout) {
  return run(
      [&](int pipe) {
        const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
        ::dup2(nothing, STDIN_FILENO);
        ::dup2(pipe, STDOUT_FILENO);
        ::dup2(pipe, STDERR_FILENO);
        std::vector<char*> words;
        for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
        words.push_back(nullptr);
        ::execvp(words[0], words.data());
        return kCannotRun;
      },
      timeout);
}

}  // namespace dlobd::app
