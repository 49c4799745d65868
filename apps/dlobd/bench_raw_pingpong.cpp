#include "bench_raw_pingpong.h"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "base/time.h"
#include "bench_pingpong.h"
#include "bench_sockets.h"
#include "compute/arena.h"

namespace dlobd::app {

using base::ErrorKind;
using base::fail;
using base::Result;

std::vector<RawPingPong> raw_ping_pongs() {
  return {{"raw_tcp_poll", false, false, false},
          {"raw_tcp_spin", false, true, false},
          {"raw_memory_copy", true, true, false},
          {"raw_memory_kernel", true, true, true}};
}

SharedMemory::SharedMemory(std::uint64_t bytes) : bytes_(bytes) {
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<std::byte*>(mapped);
}

SharedMemory::~SharedMemory() {
  munmap(data_, bytes_);
}

namespace {

constexpr std::size_t kPage = 4096;

std::uint64_t target_bytes(const std::vector<std::uint64_t>& sizes) {
  const std::uint64_t largest = *std::max_element(sizes.begin(), sizes.end());
  return (largest + kPage - 1) / kPage * kPage;
}

// Bytes one way at a time, in order.
class RawLink {
 public:
  RawLink() = default;
  RawLink(const RawLink&) = delete;
  RawLink& operator=(const RawLink&) = delete;
  virtual ~RawLink() = default;
  virtual Result<void> put(std::span<const std::byte> bytes) = 0;
  // The next bytes, as many; where they are stays so until the next call.
  virtual Result<std::span<const std::byte>> get(std::size_t bytes) = 0;
};

class SocketLink final : public RawLink {
 public:
  SocketLink(RawSocket socket, bool spin, std::span<std::byte> target)
      : socket_(std::move(socket)), spin_(spin), target_(target) {}

  Result<void> put(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = send(socket_.fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      DLOBD_TRY_VOID(moved, after(n, POLLOUT));
      bytes = bytes.subspan(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    }
    return {};
  }

  Result<std::span<const std::byte>> get(std::size_t bytes) override {
    for (auto rest = target_.first(bytes); !rest.empty();) {
      const ssize_t n = recv(socket_.fd, rest.data(), rest.size(), MSG_DONTWAIT);
      if (n == 0) return fail(ErrorKind::peer_lost, "the other rank closed the connection");
      DLOBD_TRY_VOID(moved, after(n, POLLIN));
      rest = rest.subspan(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    }
    return target_.first(bytes);
  }

 private:
  // Waits, if nothing could be moved.
  Result<void> after(ssize_t moved, short what) const {
    if (moved >= 0 || errno == EINTR) return {};
    if (errno != EAGAIN)
      return fail(ErrorKind::peer_lost, "the connection broke: " + system_reason());
    if (spin_) return {};
    pollfd one{socket_.fd, what, 0};
    poll(&one, 1, 1000);
    return {};
  }

  RawSocket socket_;
  bool spin_;
  std::span<std::byte> target_;
};

// At the beginning of the shared memory; each on its own lines of the cache.
struct Counters {
  alignas(256) std::atomic<std::uint64_t> to_0;
  alignas(256) std::atomic<std::uint64_t> to_1;
  std::atomic<std::uint64_t>& to(int rank) { return rank == 0 ? to_0 : to_1; }
};

class MemoryLink final : public RawLink {
 public:
  MemoryLink(int rank, std::byte* shared, std::span<std::byte> there, std::span<std::byte> here,
             pid_t peer)
      : rank_(rank),
        counters_(*reinterpret_cast<Counters*>(shared)),
        there_(there),
        here_(here),
        peer_(peer) {}

  Result<void> put(std::span<const std::byte> bytes) override {
    if (peer_ == 0) {
      std::memcpy(there_.data(), bytes.data(), bytes.size());
    } else {
      const iovec from{const_cast<std::byte*>(bytes.data()), bytes.size()};
      const iovec to{there_.data(), bytes.size()};
      const ssize_t put = process_vm_writev(peer_, &from, 1, &to, 1, 0);
      if (put != static_cast<ssize_t>(bytes.size())) {
        return fail(ErrorKind::io_error,
                    "cannot write into the other rank's memory: " + system_reason());
      }
    }
    counters_.to(1 - rank_).fetch_add(1, std::memory_order_release);
    return {};
  }

  Result<std::span<const std::byte>> get(std::size_t bytes) override {
    constexpr int kPatience = 10'000;  // of asking before the core is offered to others
    ++taken_;
    for (int asked = 0; counters_.to(rank_).load(std::memory_order_acquire) < taken_; ++asked) {
      if (asked > kPatience) sched_yield();
    }
    return here_.first(bytes);
  }

 private:
  int rank_;
  Counters& counters_;
  std::span<std::byte> there_;
  std::span<std::byte> here_;
  pid_t peer_;  // 0: what is there is mapped here
  std::uint64_t taken_ = 0;
};

double us_since(base::Time start) {
  return std::chrono::duration<double, std::micro>(base::steady_now() - start).count();
}

Result<void> there_and_back(RawLink& link, bool leads, std::span<const std::byte> source) {
  if (leads) {
    DLOBD_TRY_VOID(put, link.put(source));
  }
  DLOBD_TRY(got, link.get(source.size()));
  static_cast<void>(got);
  if (!leads) {
    DLOBD_TRY_VOID(put, link.put(source));
  }
  return {};
}

Result<void> check_both_ways(RawLink& link, int rank, std::span<std::byte> source) {
  fill_pattern(source, rank);
  if (rank == 0) {
    DLOBD_TRY_VOID(put, link.put(source));
  }
  DLOBD_TRY(got, link.get(source.size()));
  DLOBD_TRY_VOID(right, check_pattern(got, 1 - rank));
  if (rank == 1) {
    DLOBD_TRY_VOID(put, link.put(source));
  }
  return {};
}

Result<void> stream(RawLink& link, bool leads, std::span<const std::byte> source,
                    std::size_t window) {
  const std::size_t acknowledgement = 1;
  for (std::size_t i = 0; i < window; ++i) {
    if (leads) {
      DLOBD_TRY_VOID(put, link.put(source));
    } else {
      DLOBD_TRY(got, link.get(source.size()));
      static_cast<void>(got);
    }
  }
  if (!leads) return link.put(source.first(acknowledgement));
  DLOBD_TRY(got, link.get(acknowledgement));
  static_cast<void>(got);
  return {};
}

Result<PingPong> play(RawLink& link, int rank, std::span<std::byte> source, std::size_t most) {
  const bool leads = rank == 0;
  DLOBD_TRY_VOID(right, check_both_ways(link, rank, source));
  const PingPongPlan plan = plan_of(source.size(), most);
  PingPong one;
  for (std::size_t i = 0; i < warmups(plan.round_trips) + plan.round_trips; ++i) {
    const base::Time start = base::steady_now();
    DLOBD_TRY_VOID(turned, there_and_back(link, leads, source));
    if (leads && i >= warmups(plan.round_trips)) one.half_trips_us.push_back(us_since(start) / 2);
  }
  for (std::size_t i = 0; i < warmups(plan.windows) + plan.windows; ++i) {
    const base::Time start = base::steady_now();
    DLOBD_TRY_VOID(streamed, stream(link, leads, source, plan.window));
    if (leads && i >= warmups(plan.windows)) one.windows_us.push_back(us_since(start));
  }
  return one;
}

// The peer's process and its target's address.
struct Place {
  pid_t process;
  std::byte* target;
};

}  // namespace

std::uint64_t shared_bytes(const std::vector<std::uint64_t>& sizes) {
  return kPage + 2 * target_bytes(sizes);
}

Result<Blob> raw_ping_pong(Seat& seat, const RawPingPong& setting, std::byte* shared,
                           const std::vector<std::uint64_t>& sizes, std::size_t most) {
  compute::ParameterSpec spec;
  spec.name = "buffer";
  const std::uint64_t room = target_bytes(sizes);
  spec.shape = {static_cast<std::int64_t>(room / sizeof(float))};
  const compute::ParameterArena arena({spec});
  const auto target = std::as_writable_bytes(arena.parameters());
  const auto source = std::as_writable_bytes(arena.gradients());

  std::unique_ptr<RawLink> link;
  if (setting.memory) {
    // Where only ancestors may reach into a process (Yama): the other rank may, too.
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    const Place own{getpid(), target.data()};
    const auto* first = reinterpret_cast<const std::byte*>(&own);
    DLOBD_TRY(places, seat.all_gather(Blob(first, first + sizeof own)));
    Place other{};
    std::memcpy(&other, places[static_cast<std::size_t>(1 - seat.rank())].data(), sizeof other);
    const auto mapped = [&](int rank) {
      return std::span(shared + kPage + static_cast<std::size_t>(rank) * room, room);
    };
    link = std::make_unique<MemoryLink>(
        seat.rank(), shared,
        setting.by_kernel ? std::span(other.target, room) : mapped(1 - seat.rank()),
        setting.by_kernel ? target : mapped(seat.rank()), setting.by_kernel ? other.process : 0);
  } else {
    DLOBD_TRY(socket, connect_two(seat));
    link = std::make_unique<SocketLink>(std::move(socket), setting.spin, target);
  }
  PingPongs measured;
  for (const std::uint64_t bytes : sizes) {
    DLOBD_TRY(one, play(*link, seat.rank(), source.first(bytes), most));
    // One limit for both ways.
    for (const Way way : kWays) {
      if (goes(way, bytes)) measured[way][bytes] = one;
    }
  }
  return to_blob(measured);
}

}  // namespace dlobd::app
