#include "cluster/local_launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/signals.h"
#include "cluster/child_process.h"
#include "cluster/report_pipe.h"
#include "cluster/tcp_link.h"

namespace dlobd::cluster {

using base::Descriptor;
using base::ErrorKind;
using base::Result;
using base::Time;

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kPipeBytes = 64 << 10;  // of one read
constexpr std::size_t kLongestLine = 64 << 10;
// How long pipes of ended ranks may stay open: a descendant that left the group may hold them.
constexpr base::Duration kDrain = 500ms;

// Signals of the calling thread come through a descriptor while this lives.
class SignalReader {
 public:
  SignalReader() {
    sigset_t ours;
    ::sigemptyset(&ours);
    ::sigaddset(&ours, SIGCHLD);
    // Not those that are ignored: a descriptor would hand them over.
    base::for_each_ending_signal([&ours](int number) { ::sigaddset(&ours, number); });
    ::pthread_sigmask(SIG_BLOCK, &ours, &before_);
    fd_.reset(::signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  ~SignalReader() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalReader(const SignalReader&) = delete;
  SignalReader& operator=(const SignalReader&) = delete;

  [[nodiscard]] int fd() const { return fd_.get(); }
  // 0: none left.
  int next() {
    signalfd_siginfo info{};
    return ::read(fd_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo)
                                                                : 0;
  }

 private:
  sigset_t before_{};
  Descriptor fd_;
};

struct Rank {
  ChildProcess child;
  std::optional<ReportParser> reports;
  std::string line;  // begun, not ended yet
  RankExit exit;
  bool ended = false;
};

class Launcher {
 public:
  Launcher(const LaunchOptions& options, const LaunchCallbacks& callbacks)
      : options_(options), callbacks_(callbacks) {}

  // Whatever happens, no rank is left.
  ~Launcher() {
    for (Rank& rank : ranks_) {
      if (rank.ended) continue;
      ::kill(-rank.child.pid, SIGKILL);
      ::kill(rank.child.pid, SIGKILL);
      ::waitpid(rank.child.pid, nullptr, 0);
    }
  }

  Result<void> start() {
    if (options_.ranks < 1) {
      return base::fail(ErrorKind::invalid_argument,
                        fmt::format("a job needs at least one rank: {}", options_.ranks));
    }
    DLOBD_TRY(listening, listen_on(options_.listen));
    Descriptor listen(listening);
    const std::string rendezvous = local_address(listening);
    ranks_.reserve(static_cast<std::size_t>(options_.ranks));
    for (int rank = 0; rank < options_.ranks; ++rank) {
      const auto argv = options_.command(rank, rendezvous);
      const auto environment =
          options_.environment ? options_.environment(rank) : std::vector<std::string>();
      auto child = start_child(argv, environment, rank == 0 ? listening : -1);
      if (!child) {
        return base::fail(child.error().while_doing(fmt::format("starting rank {}", rank)));
      }
      Rank started;
      started.child = std::move(*child);
      started.reports.emplace([this, rank](std::vector<std::byte> blob) {
        if (callbacks_.on_report) callbacks_.on_report(rank, std::move(blob));
      });
      ranks_.push_back(std::move(started));
      if (callbacks_.on_started) callbacks_.on_started(rank, ranks_.back().child.pid);
    }
    return {};  // and the listening socket is rank 0's alone from now on
  }

  LaunchOutcome run() {
    while (true) {
      const bool all_ended =
          std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.ended; });
      const bool pipes = wait_for_something();
      for (int number = signals_.next(); number != 0; number = signals_.next()) {
        if (number != SIGCHLD) pass_on(number);
      }
      reap();
      escalate();
      if (all_ended && drain_until_ == Time::zero()) drain_until_ = base::steady_now() + kDrain;
      if (all_ended && (!pipes || base::steady_now() >= drain_until_)) break;
    }
    LaunchOutcome outcome;
    for (Rank& rank : ranks_) outcome.ranks.push_back(std::move(rank.exit));
    outcome.first_bad = first_bad_;
    outcome.interrupted_by = interrupted_by_;
    return outcome;
  }

 private:
  // Reads what has come; false when all pipes have ended.
  bool wait_for_something() {
    std::vector<pollfd> watched{{signals_.fd(), POLLIN, 0}};
    std::vector<std::pair<std::size_t, bool>> owners;  // rank, whether it is the report pipe
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const ChildProcess& child = ranks_[rank].child;
      if (child.report) watched.push_back({child.report.get(), POLLIN, 0});
      if (child.report) owners.emplace_back(rank, true);
      if (child.output) watched.push_back({child.output.get(), POLLIN, 0});
      if (child.output) owners.emplace_back(rank, false);
    }
    // SIGCHLD wakes; the time-out is for what only time brings.
    ::poll(watched.data(), watched.size(), 100);
    for (std::size_t i = 0; i < owners.size(); ++i) {
      if (watched[i + 1].revents != 0) read(static_cast<int>(owners[i].first), owners[i].second);
    }
    return !owners.empty();
  }

  void read(int rank, bool report) {
    Rank& from = ranks_[static_cast<std::size_t>(rank)];
    Descriptor& fd = report ? from.child.report : from.child.output;
    std::vector<std::byte> bytes(kPipeBytes);
    const ssize_t count = ::read(fd.get(), bytes.data(), bytes.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) {
      fd.reset();
      if (!report && !from.line.empty()) end_line(rank, from);
      return;
    }
    const auto come = std::span<const std::byte>(bytes).first(static_cast<std::size_t>(count));
    if (!report) return take_output(rank, from, come);
    // A rank that writes no reports into its pipe is not listened to there any more.
    if (!from.reports->feed(come)) fd.reset();
  }

  void take_output(int rank, Rank& from, std::span<const std::byte> bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    std::string& kept = from.exit.output;
    kept += text;
    if (kept.size() > kKeptOutputBytes) kept.erase(0, kept.size() - kKeptOutputBytes);
    for (const char c : text) {
      if (c != '\n') from.line += c;
      if (c == '\n' || from.line.size() >= kLongestLine) end_line(rank, from);
    }
  }

  void end_line(int rank, Rank& from) {
    if (callbacks_.on_line) {
      callbacks_.on_line(rank, from.line);
    } else if (options_.verbose) {
      fmt::print(stderr, "[rank {}] {}\n", rank, from.line);
    }
    from.line.clear();
  }

  // A first signal is for the ranks to end in order; a second one ends their patience.
  void pass_on(int number) {
    const bool first = interrupted_by_ == 0;
    if (first) interrupted_by_ = number;
    if (first) {
      send_all(number);
    } else if (!terminated_) {
      terminate();
    } else {
      kill_at_ = base::steady_now();
    }
  }

  void send_all(int number) {
    for (const Rank& rank : ranks_) {
      if (!rank.ended) ::kill(-rank.child.pid, number);
    }
  }

  void terminate() {
    for (Rank& rank : ranks_) rank.exit.put_down = rank.exit.put_down || !rank.ended;
    send_all(SIGTERM);
    terminated_ = true;
    kill_at_ = base::steady_now() + options_.kill_grace;
  }

  void reap() {
    bool now_ended = false;  // first_bad_ is of this call
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      Rank& rank = ranks_[i];
      if (rank.ended) continue;
      siginfo_t info{};
      if (::waitid(P_PID, static_cast<id_t>(rank.child.pid), &info, WEXITED | WNOHANG | WNOWAIT) !=
              0 ||
          info.si_pid == 0) {
        continue;
      }
      // Its group's name is ours until it is waited for: whatever it started ends with it.
      ::kill(-rank.child.pid, SIGKILL);
      ::waitpid(rank.child.pid, nullptr, 0);
      rank.ended = true;
      if (info.si_code == CLD_EXITED) {
        rank.exit.exit_code = info.si_status;
      } else {
        rank.exit.signal = info.si_status;
      }
      if (rank.exit.good()) continue;
      // Of ranks that are found ended together, one that a signal took came before those that gave
      // up.
      const bool before_others =
          first_bad_ < 0 || (now_ended && rank.exit.signal != 0 &&
                             ranks_[static_cast<std::size_t>(first_bad_)].exit.signal == 0);
      if (!before_others) continue;
      first_bad_ = static_cast<int>(i);
      now_ended = true;
      terminate_at_ = base::steady_now() + options_.grace;
    }
  }

  // A rank that is stopped cannot end by itself. Once nothing but such ranks is left of a job that
  // has failed, there is nobody to wait for.
  bool only_stopped_left() {
    bool any = false;
    for (const Rank& rank : ranks_) {
      if (rank.ended) continue;
      siginfo_t info{};
      const auto pid = static_cast<id_t>(rank.child.pid);
      if (::waitid(P_PID, pid, &info, WSTOPPED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
        return false;
      }
      any = true;
    }
    return any;
  }

  void escalate() {
    const Time now = base::steady_now();
    if (!terminated_ && first_bad_ >= 0 && only_stopped_left()) {
      terminate();
      kill_at_ = now;  // a stopped process does not hear SIGTERM
    }
    if (!terminated_ && first_bad_ >= 0 && now >= terminate_at_) terminate();
    if (terminated_ && now >= kill_at_) send_all(SIGKILL);
  }

  const LaunchOptions& options_;
  const LaunchCallbacks& callbacks_;
  SignalReader signals_;
  std::vector<Rank> ranks_;
  int first_bad_ = -1;
  int interrupted_by_ = 0;
  bool terminated_ = false;
  Time terminate_at_{0};
  Time kill_at_{0};
  Time drain_until_{0};
};

}  // namespace

std::string RankExit::describe() const {
  if (signal == 0) return fmt::format("exit code {}", exit_code);
  const char* const text = ::sigdescr_np(signal);
  return fmt::format("killed by signal {} ({})", signal, text == nullptr ? "unknown" : text);
}

Result<LaunchOutcome> launch_local(const LaunchOptions& options, const LaunchCallbacks& callbacks) {
  Launcher launcher(options, callbacks);
  auto started = launcher.start();
  if (!started) return base::fail(started.error());
  return launcher.run();
}

}  // namespace dlobd::cluster
