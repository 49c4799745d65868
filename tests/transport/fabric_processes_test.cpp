// Endpoints over libfabric in two processes, as ranks are: what they exchange, and what a survivor
// sees of a peer that was killed.
#include "fabric_processes.h"

namespace dlobd::transport {
namespace {

using namespace std::chrono_literals;

class FabricProcesses : public testing::TestWithParam<std::string> {
 protected:
  int run(ProcessRank::Body parent, ProcessRank::Body child) {
    return run_two_processes(GetParam(), parent, child, &child_);
  }

  static inline pid_t child_ = -1;  // whom a body kills

  static base::Task<void> exchange(Endpoint& endpoint, std::span<std::byte> memory);
  static base::Task<void> write_to_a_victim(Endpoint& endpoint, std::span<std::byte> memory);
  static base::Task<void> read_from_a_victim(Endpoint& endpoint, std::span<std::byte> memory);
};

base::Task<void> FabricProcesses::exchange(Endpoint& endpoint, std::span<std::byte> memory) {
  const int peer = 1 - endpoint.rank();
  const auto seed = static_cast<std::uint64_t>(endpoint.rank());
  const Bytes bytes = pattern(kProcessRegionBytes, seed);
  const Bytes theirs = pattern(kProcessRegionBytes, 1 - seed);
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{4096}, std::size_t{100'000}, kProcessRegionBytes}) {
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
  EXPECT_EQ(WTERMSIG(run(write_to_a_victim, read_on)), SIGKILL);
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
  EXPECT_EQ(WTERMSIG(run(read_from_a_victim, write_on)), SIGKILL);
}

std::string process_provider(const testing::TestParamInfo<std::string>& tested) {
  return tested.param == "shm" ? "shm" : "tcp_ofi_rxm";
}

INSTANTIATE_TEST_SUITE_P(Providers, FabricProcesses, testing::Values("shm", "tcp;ofi_rxm"),
                         process_provider);

}  // namespace
}  // namespace dlobd::transport
