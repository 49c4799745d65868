#include "bench_forked.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/check.h"

namespace dlobd::app {

using base::ErrorKind;
using base::fail;
using base::Result;

namespace {

// A frame: what it is, how long, the bytes.
enum class Frame : std::uint64_t { gather, result, error };

bool write_all(int fd, const void* data, std::size_t size) {
  const auto* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t put = send(fd, at, size, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    at += put;
    size -= static_cast<std::size_t>(put);
  }
  return true;
}

bool write_frame(int fd, Frame frame, const Blob& blob) {
  const std::array<std::uint64_t, 2> head{static_cast<std::uint64_t>(frame), blob.size()};
  return write_all(fd, head.data(), sizeof head) && write_all(fd, blob.data(), blob.size());
}

// `ready` waits until something can be read; false: give up.
template <class Ready>
bool read_all(int fd, void* data, std::size_t size, Ready&& ready) {
  auto* at = static_cast<char*>(data);
  while (size > 0) {
    if (!ready(fd)) return false;
    const ssize_t got = recv(fd, at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

template <class Ready>
bool read_frame(int fd, Frame& frame, Blob& blob, Ready&& ready) {
  std::array<std::uint64_t, 2> head{};
  if (!read_all(fd, head.data(), sizeof head, ready)) return false;
  frame = static_cast<Frame>(head[0]);
  blob.resize(head[1]);
  return read_all(fd, blob.data(), blob.size(), ready);
}

Blob bytes_of(const std::string& text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return Blob(first, first + text.size());
}

// The forked processes; ends those that still run when it goes.
struct Ranks {
  std::vector<pid_t> pids;
  std::vector<int> channels;

  Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  ~Ranks() {
    for (const int fd : channels) close(fd);
    for (const pid_t pid : pids) kill(pid, SIGKILL);
    for (const pid_t pid : pids) {
      while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
  }
};

[[noreturn]] void be_rank(Seat seat, int channel, const RankBody& body) {
  const auto result = body(seat);
  const bool told = result ? write_frame(channel, Frame::result, *result)
                           : write_frame(channel, Frame::error, bytes_of(result.error().message));
  _exit(told && result ? 0 : 1);  // nothing of the parent's is to be tidied up here
}

// How the wait for a rank's next bytes ends.
class Watch {
 public:
  Watch(const Interrupt& interrupt, base::Duration limit)
      : interrupt_(interrupt), limit_(limit), deadline_(base::steady_now() + limit) {}

  bool ready(int fd) {
    while (true) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - base::steady_now());
      if (left.count() <= 0) {
        late_ = true;
        return false;
      }
      std::array<pollfd, 2> waits{{{fd, POLLIN, 0}, {interrupt_.fd(), POLLIN, 0}}};
      poll(waits.data(), waits.size(), static_cast<int>(left.count()) + 1);
      if (waits[1].revents != 0) {
        stopped_ = true;
        return false;
      }
      if (waits[0].revents != 0) return true;
    }
  }

  base::Failure why(int rank) const {
    if (stopped_) return stopped();
    if (late_) {
      return fail(
          ErrorKind::deadline_exceeded,
          fmt::format("a rank of the benchmark did not answer in {} s: rank {}",
                      std::chrono::duration_cast<std::chrono::seconds>(limit_).count(), rank));
    }
    return fail(ErrorKind::peer_lost,
                fmt::format("a rank of the benchmark ended early: rank {}", rank), rank);
  }

 private:
  const Interrupt& interrupt_;
  base::Duration limit_;
  base::Time deadline_;
  bool stopped_ = false;
  bool late_ = false;
};

// What rank `first` said, and what the ranks behind it have said by now: the first to fail may only
// have felt the failure of another.
base::Failure failed_ranks(const Ranks& children, int first, const Blob& said) {
  const auto text = [](int rank, const Blob& words) {
    return fmt::format("rank {}: {}", rank,
                       std::string_view(reinterpret_cast<const char*>(words.data()), words.size()));
  };
  const auto has_some = [](int fd) {
    pollfd wait{fd, POLLIN, 0};
    return poll(&wait, 1, 0) > 0;
  };
  std::string all = text(first, said);
  for (std::size_t i = static_cast<std::size_t>(first) + 1; i < children.channels.size(); ++i) {
    Frame frame{};
    Blob words;
    if (read_frame(children.channels[i], frame, words, has_some) && frame == Frame::error) {
      all += "; " + text(static_cast<int>(i), words);
    }
  }
  return fail(ErrorKind::io_error, "ranks of the benchmark failed: " + all, first);
}

}  // namespace

Result<std::vector<Blob>> Seat::all_gather(const Blob& own) {
  const auto always = [](int) { return true; };
  std::vector<Blob> all(static_cast<std::size_t>(world_size_));
  bool good = write_frame(channel_, Frame::gather, own);
  for (auto& blob : all) {
    Frame frame{};
    good = good && read_frame(channel_, frame, blob, always);
  }
  if (!good) return fail(ErrorKind::io_error, "the benchmark's parent process is gone");
  return all;
}

Result<std::vector<Blob>> run_forked(int ranks, const RankBody& body, const Interrupt& interrupt,
                                     base::Duration limit) {
  Ranks children;
  const pid_t parent = getpid();
  for (int rank = 0; rank < ranks; ++rank) {
    std::array<int, 2> pair{};
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) == 0, "socketpair: {}",
          std::strerror(errno));
    const pid_t pid = fork();
    CHECK(pid >= 0, "fork: {}", std::strerror(errno));
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      interrupt.release_in_child();
      signal(SIGINT, SIG_IGN);  // Ctrl-C reaches the parent, which ends the ranks
      for (const int fd : children.channels) close(fd);
      close(pair[0]);
      be_rank(Seat(rank, ranks, pair[1]), pair[1], body);
    }
    close(pair[1]);
    children.pids.push_back(pid);
    children.channels.push_back(pair[0]);
  }

  Watch watch(interrupt, limit);
  const auto ready = [&watch](int fd) { return watch.ready(fd); };
  std::vector<Blob> blobs(static_cast<std::size_t>(ranks));
  while (true) {
    int results = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto i = static_cast<std::size_t>(rank);
      Frame frame{};
      if (!read_frame(children.channels[i], frame, blobs[i], ready)) return watch.why(rank);
      if (frame == Frame::error) return failed_ranks(children, rank, blobs[i]);
      if (frame == Frame::result) ++results;
    }
    if (results == ranks) return blobs;
    for (const int channel : children.channels) {
      for (const auto& blob : blobs) write_frame(channel, Frame::gather, blob);
    }
  }
}

Blob to_blob(const std::vector<double>& values) {
  Blob blob(values.size() * sizeof(double));
  if (!blob.empty()) std::memcpy(blob.data(), values.data(), blob.size());
  return blob;
}

std::vector<double> from_blob(const Blob& blob) {
  std::vector<double> values(blob.size() / sizeof(double));
  if (!blob.empty()) std::memcpy(values.data(), blob.data(), values.size() * sizeof(double));
  return values;
}

}  // namespace dlobd::app
