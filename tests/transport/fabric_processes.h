// Two ranks over libfabric in two processes: the test's own, rank 0, and a child, rank 1.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "contract.h"
#include "fabric_group.h"

namespace dlobd::transport {

inline constexpr std::size_t kProcessRegionBytes = 4U << 20;

// Whole blobs through a pipe.
inline void put(int to, std::span<const std::byte> blob) {
  const std::uint64_t size = blob.size();
  ASSERT_EQ(::write(to, &size, sizeof size), static_cast<ssize_t>(sizeof size));
  ASSERT_EQ(::write(to, blob.data(), blob.size()), static_cast<ssize_t>(blob.size()));
}

inline std::vector<std::byte> get(int from) {
  std::uint64_t size = 0;
  if (::read(from, &size, sizeof size) != static_cast<ssize_t>(sizeof size)) return {};
  std::vector<std::byte> blob(size);
  std::size_t got = 0;
  while (got < size) {
    const ssize_t more = ::read(from, blob.data() + got, size - got);
    if (more <= 0) return {};
    got += static_cast<std::size_t>(more);
  }
  return blob;
}

struct Pipe {
  std::array<int, 2> ends{};
  Pipe() { EXPECT_EQ(::pipe(ends.data()), 0); }
  ~Pipe() {
    for (const int end : ends) ::close(end);
  }
};

// One rank of two, which is connected when its body starts.
class ProcessRank {
 public:
  using Body = base::Task<void> (*)(Endpoint&, std::span<std::byte>);

  ProcessRank(int rank, const fabric::Options& options) : memory_(kProcessRegionBytes) {
    auto made = fabric::FabricEndpoint::make(loop_, rank, 2, options);
    if (!made) {
      ADD_FAILURE() << made.error().message;
      return;
    }
    endpoint_ = std::move(*made);
    endpoint_->register_memory(kRegion, memory_);
  }

  void run(int to, int from, Body body) {
    if (!endpoint_) return;
    auto own = endpoint_->descriptor();
    ASSERT_TRUE(own) << own.error().message;
    put(to, *own);
    const auto other = get(from);
    descriptors_ = {*own, *own};
    descriptors_[static_cast<std::size_t>(1 - endpoint_->rank())] = other;
    loop_.spawn(live(body));
    loop_.call_after(std::chrono::seconds(20), [this] {
      ADD_FAILURE() << "rank " << endpoint_->rank() << " hangs";
      loop_.stop();
    });
    loop_.run();
  }

 private:
  base::Task<void> live(Body body) {
    auto connected = co_await endpoint_->connect(descriptors_);
    if (connected) {
      co_await body(*endpoint_, memory_);
    } else {
      ADD_FAILURE() << connected.error().message;
    }
    loop_.stop();
  }

  base::RealLoop loop_;
  Bytes memory_;
  std::vector<std::vector<std::byte>> descriptors_;
  std::unique_ptr<Endpoint> endpoint_;
};

// Runs both; returns the child's status as waitpid() gives it. Bodies find its id in *child_pid.
inline int run_two_processes(const std::string& provider, ProcessRank::Body parent,
                             ProcessRank::Body child, pid_t* child_pid = nullptr) {
  fabric::Options options = on(provider);
  options.token = "the job";
  options.peer_timeout = std::chrono::milliseconds(500);
  Pipe down;
  Pipe up;
  const pid_t other = ::fork();
  if (other == 0) {
    {
      ProcessRank rank(1, options);
      rank.run(up.ends[1], down.ends[0], child);
    }
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  if (child_pid != nullptr) *child_pid = other;
  {
    ProcessRank rank(0, options);
    rank.run(down.ends[1], up.ends[0], parent);
  }
  int status = -1;
  if (testing::Test::HasFailure()) ::kill(other, SIGKILL);
  EXPECT_EQ(::waitpid(other, &status, 0), other);
  return status;
}

// Writes, and takes what arrives, until the endpoint fails.
inline base::Task<void> write_on(Endpoint& endpoint, std::span<std::byte> memory) {
  const Bytes bytes(memory.size());
  base::Result<void> wrote;
  while (wrote) {
    Write write(1 - endpoint.rank(), kRegion, 0, bytes, {kKind, 0});
    wrote = co_await endpoint.write(std::move(write));
  }
}

inline base::Task<void> read_on(Endpoint& endpoint, std::span<std::byte>) {
  base::Result<Arrival> arrival = Arrival();
  while (arrival) arrival = co_await endpoint.next(kKind);
}

}  // namespace dlobd::transport
