#include "bench_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>

#include "base/check.h"
#include "base/signals.h"
#include "child_environment.h"

namespace dlobd::app {

using base::ErrorKind;
using base::fail;
using base::Result;

Interrupt::Interrupt() {
  sigset_t wanted;
  sigemptyset(&wanted);
  base::for_each_ending_signal([&wanted](int number) { sigaddset(&wanted, number); });
  pthread_sigmask(SIG_BLOCK, &wanted, &before_);
  fd_ = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
  CHECK(fd_ >= 0, "signalfd: {}", std::strerror(errno));
}

Interrupt::~Interrupt() {
  // A signal that was heard is not to act a second time.
  signalfd_siginfo heard;
  while (read(fd_, &heard, sizeof heard) == sizeof heard) {
  }
  close(fd_);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool Interrupt::pending() const {
  pollfd wait{fd_, POLLIN, 0};
  return poll(&wait, 1, 0) > 0;
}

void Interrupt::release_in_child() const {
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

base::Failure stopped() {
  return fail(ErrorKind::cancelled, "stopped by a signal");
}

namespace {

constexpr auto kTermGrace = std::chrono::seconds(4);

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (auto& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

// One running program. Ends it, and everything in its group, when it goes.
class Child {
 public:
  Child(const Command& command, const Interrupt& interrupt) : name_(command.words.at(0)) {
    std::array<int, 2> out{};
    std::array<int, 2> err{};
    CHECK(pipe2(out.data(), O_CLOEXEC) == 0 && pipe2(err.data(), O_CLOEXEC) == 0, "pipe2: {}",
          std::strerror(errno));
    auto words = command.words;
    auto environment = child_environment(command.environment);  // before the fork: it allocates
    const auto argv = pointers(words);
    const auto envp = pointers(environment);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) {
      setpgid(0, 0);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(127);
      interrupt.release_in_child();
      const int none = ::open("/dev/null", O_RDONLY);
      dup2(none, STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      dup2(err[1], STDERR_FILENO);
      execvpe(argv[0], argv.data(), envp.data());
      dprintf(STDERR_FILENO, "cannot be started: %s\n", std::strerror(errno));
      _exit(127);
    }
    close(out[1]);
    close(err[1]);
    streams_ = {out[0], err[0]};
    if (pid_ > 0) setpgid(pid_, pid_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  ~Child() {
    end();
    for (const int fd : streams_) {
      if (fd >= 0) close(fd);
    }
  }

  [[nodiscard]] int stream(std::size_t i) const { return streams_[i]; }

  // Something is there on stream 0 (stdout) or 1 (stderr), or its end.
  void take(std::size_t i) {
    std::array<char, 65536> buffer;
    const ssize_t got = read(streams_[i], buffer.data(), buffer.size());
    if (got > 0) {
      (i == 0 ? finished_.output : finished_.errors)
          .append(buffer.data(), static_cast<std::size_t>(got));
    } else if (got == 0 || errno != EINTR) {
      close(streams_[i]);
      streams_[i] = -1;
    }
  }

  // Both streams have ended.
  Result<Finished> wait() {
    while (waitpid(pid_, &finished_.status, 0) < 0 && errno == EINTR) {
    }
    const pid_t group = pid_;
    pid_ = -1;
    kill(-group, SIGKILL);  // nobody is left, as a rule
    if (WIFEXITED(finished_.status) && WEXITSTATUS(finished_.status) == 0)
      return std::move(finished_);
    const std::string how = WIFSIGNALED(finished_.status)
                                ? fmt::format("signal {}", WTERMSIG(finished_.status))
                                : fmt::format("exit status {}", WEXITSTATUS(finished_.status));
    return fail(ErrorKind::io_error, fmt::format("a program of the benchmark failed: {}: {}: {}",
                                                 name_, how, last_line()));
  }

  // SIGTERM first, for the programs that have children of their own to tidy up.
  void end() {
    if (pid_ <= 0) return;
    kill(-pid_, SIGTERM);
    const auto deadline = base::steady_now() + kTermGrace;
    int status = 0;
    while (waitpid(pid_, &status, WNOHANG) == 0 && base::steady_now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    kill(-pid_, SIGKILL);
    waitpid(pid_, &status, 0);
    pid_ = -1;
  }

 private:
  [[nodiscard]] std::string last_line() const {
    std::string_view text = finished_.errors;
    while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
    return text.empty() ? "it said nothing" : std::string(text.substr(text.rfind('\n') + 1));
  }

  std::string name_;
  pid_t pid_ = -1;
  std::array<int, 2> streams_{-1, -1};
  Finished finished_;
};

}  // namespace

Result<std::vector<Finished>> run_commands(std::span<const Command> commands,
                                           const Interrupt& interrupt, base::Duration limit) {
  const auto deadline = base::steady_now() + limit;
  std::vector<std::unique_ptr<Child>> children;
  for (const auto& command : commands)
    children.push_back(std::make_unique<Child>(command, interrupt));
  while (true) {
    std::vector<pollfd> waits{{interrupt.fd(), POLLIN, 0}};
    std::vector<std::pair<Child*, std::size_t>> owners{{nullptr, 0}};
    for (auto& child : children) {
      for (std::size_t i = 0; i < 2; ++i) {
        if (child->stream(i) < 0) continue;
        waits.push_back({child->stream(i), POLLIN, 0});
        owners.emplace_back(child.get(), i);
      }
    }
    if (waits.size() == 1) break;
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - base::steady_now());
    if (left.count() <= 0) {
      return fail(ErrorKind::deadline_exceeded,
                  fmt::format("a program of the benchmark did not end in {} s: {}",
                              std::chrono::duration_cast<std::chrono::seconds>(limit).count(),
                              commands[0].words[0]));
    }
    if (poll(waits.data(), waits.size(), static_cast<int>(left.count()) + 1) < 0 &&
        errno != EINTR) {
      return fail(ErrorKind::io_error, fmt::format("poll: {}", std::strerror(errno)));
    }
    if (waits[0].revents != 0) return stopped();
    for (std::size_t i = 1; i < waits.size(); ++i) {
      if (waits[i].revents != 0) owners[i].first->take(owners[i].second);
    }
  }
  std::vector<Finished> all;
  for (auto& child : children) {
    auto finished = child->wait();
    if (!finished) return fail(finished.error());
    all.push_back(std::move(*finished));
  }
  return all;
}

Result<TempFolder> TempFolder::make() {
  std::error_code error;
  auto base = std::filesystem::temp_directory_path(error);
  if (error) base = "/tmp";
  std::string path = (base / "dlobd-bench-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr) {
    return fail(ErrorKind::io_error,
                fmt::format("cannot make a temporary folder: {}: {}", path, std::strerror(errno)));
  }
  return TempFolder(std::move(path));
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace dlobd::app
