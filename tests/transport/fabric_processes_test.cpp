// Endpoints over libfabric in two processes, as ranks are: what they exchange, and what a survivor
// sees of a peer that was killed.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "contract.h"
#include "fabric_group.h"

namespace dlobd::transport {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kRegionBytes = 4U << 20;

// Whole blobs through a pipe.
void put(int to, std::span<const std::byte> blob) {
  const std::uint64_t size = blob.size();
  ASSERT_EQ(::write(to, &size, sizeof size), static_cast<ssize_t>(sizeof size));
  ASSERT_EQ(::write(to, blob.data(), blob.size()), static_cast<ssize_t>(blob.size()));
}

std::vector<std::byte> get(int from) {
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
class Rank {
 public:
  using Body = base::Task<void> (*)(Endpoint&, std::span<std::byte>);

  Rank(int rank, const fabric::Options& options) : memory_(kRegionBytes) {
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
    loop_.call_after(20s, [this] {
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

class FabricProcesses : public testing::TestWithParam<std::string> {
 protected:
  // Runs both; returns the child's status as waitpid() gives it.
  int run(Rank::Body parent, Rank::Body child, bool kill = false) {
    fabric::Options options = on(GetParam());
    options.token = "the job";
    options.peer_timeout = 500ms;
    Pipe down;
    Pipe up;
    const pid_t other = ::fork();
    if (other == 0) {
      {
        Rank rank(1, options);
        rank.run(up.ends[1], down.ends[0], child);
      }
      ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
    child_ = kill ? other : -1;
    {
      Rank rank(0, options);
      rank.run(down.ends[1], up.ends[0], parent);
    }
    int status = -1;
    if (testing::Test::HasFailure()) ::kill(other, SIGKILL);
    EXPECT_EQ(::waitpid(other, &status, 0), other);
    return status;
  }

  static inline pid_t child_ = -1;  // whom a body kills

  static base::Task<void> exchange(Endpoint& endpoint, std::span<std::byte> memory);
  static base::Task<void> write_to_a_victim(Endpoint& endpoint, std::span<std::byte> memory);
  static base::Task<void> read_from_a_victim(Endpoint& endpoint, std::span<std::byte> memory);
  static base::Task<void> write_on(Endpoint& endpoint, std::span<std::byte> memory);
  static base::Task<void> read_on(Endpoint& endpoint, std::span<std::byte> memory);
};

base::Task<void> FabricProcesses::exchange(Endpoint& endpoint, std::span<std::byte> memory) {
  const int peer = 1 - endpoint.rank();
  const auto seed = static_cast<std::uint64_t>(endpoint.rank());
  const Bytes bytes = pattern(kRegionBytes, seed);
  const Bytes theirs = pattern(kRegionBytes, 1 - seed);
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{4096}, std::size_t{100'000}, kRegionBytes}) {
    Write write(peer, kRegion, 0, std::span(bytes).first(size), {kKind, 1});
    auto wrote = co_await endpoint.write(std::move(write));
    CO_ASSERT_OK(wrote);
    auto arrival = co_await endpoint.next(kKind);
    CO_ASSERT_OK(arrival);
    EXPECT_EQ(arrival->bytes, size);
    const auto landed = memory.first(size);
    EXPECT_TRUE(std::equal(landed.begin(), landed.end(), theirs.begin())) << size;
    // Nobody writes again before both have looked.
    Message message(peer, {kOtherKind, 2}, std::span(bytes).first(kMaxMessageBytes));
    wrote = co_await endpoint.send(std::move(message));
    CO_ASSERT_OK(wrote);
    arrival = co_await endpoint.next(kOtherKind);
    CO_ASSERT_OK(arrival);
    EXPECT_TRUE(std::equal(arrival->payload.begin(), arrival->payload.end(), theirs.begin()));
  }
  auto closed = co_await endpoint.shutdown();
  CO_ASSERT_OK(closed);
}

TEST_P(FabricProcesses, ExchangeAndLeave) {
  EXPECT_EQ(run(exchange, exchange), 0);
}

base::Task<void> FabricProcesses::write_on(Endpoint& endpoint, std::span<std::byte> memory) {
  const Bytes bytes(memory.size());
  base::Result<void> wrote;
  while (wrote) {
    Write write(1 - endpoint.rank(), kRegion, 0, bytes, {kKind, 0});
    wrote = co_await endpoint.write(std::move(write));
  }
}

base::Task<void> FabricProcesses::read_on(Endpoint& endpoint, std::span<std::byte>) {
  base::Result<Arrival> arrival = Arrival();
  while (arrival) arrival = co_await endpoint.next(kKind);
}

base::Task<void> FabricProcesses::write_to_a_victim(Endpoint& endpoint,
                                                    std::span<std::byte> memory) {
  base::Time broken{0};
  endpoint.on_link_broken([&](int peer, const base::Error& why) {
    EXPECT_EQ(peer, 1);
    EXPECT_NE(why.message.find("rank 1"), std::string::npos) << why.message;
    broken = endpoint.loop().now();
    endpoint.fail(gone());
  });
  base::Time killed{0};
  endpoint.loop().call_after(100ms, [&] {
    killed = endpoint.loop().now();
    ::kill(child_, SIGKILL);
  });
  co_await write_on(endpoint, memory);
  EXPECT_GT(broken, killed);
  EXPECT_LT(broken - killed, 2s);
}

TEST_P(FabricProcesses, AKilledReceiverBreaksTheLink) {
  EXPECT_EQ(WTERMSIG(run(write_to_a_victim, read_on, true)), SIGKILL);
}

base::Task<void> FabricProcesses::read_from_a_victim(Endpoint& endpoint, std::span<std::byte>) {
  endpoint.on_link_broken([](int, const base::Error&) {});
  endpoint.loop().call_after(100ms, [] { ::kill(child_, SIGKILL); });
  // Nothing need be heard of it here: the heartbeat hears it, and ends the endpoint.
  endpoint.loop().call_after(600ms, [&endpoint] { endpoint.fail(gone()); });
  std::uint64_t arrived = 0;
  base::Result<Arrival> arrival = Arrival();
  while (arrival) {
    arrival = co_await endpoint.next(kKind);
    if (arrival) ++arrived;
  }
  EXPECT_EQ(arrival.error(), gone());
  EXPECT_GT(arrived, 0U);
}

TEST_P(FabricProcesses, AKilledSenderHarmsNobody) {
  EXPECT_EQ(WTERMSIG(run(read_from_a_victim, write_on, true)), SIGKILL);
}

std::string process_provider(const testing::TestParamInfo<std::string>& tested) {
  return tested.param == "shm" ? "shm" : "tcp_ofi_rxm";
}

INSTANTIATE_TEST_SUITE_P(Providers, FabricProcesses, testing::Values("shm", "tcp;ofi_rxm"),
                         process_provider);

}  // namespace
}  // namespace dlobd::transport
