// What endpoints over libfabric do beyond the contract: credits, fragments, refusals, silence.
#include <gmock/gmock.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "contract.h"
#include "fabric_group.h"
#include "transport/fabric/providers.h"

namespace dlobd::transport {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class Fabric : public testing::TestWithParam<std::string> {
 protected:
  fabric::Options options() { return on(GetParam()); }
  std::unique_ptr<Group> group(const fabric::Options& options, std::size_t region_bytes) {
    auto made = fabric_group(2, FabricLoops::one_each, options);
    made->connect(region_bytes);
    return made;
  }
};

TEST_P(Fabric, SaysWhatItOpened) {
  auto group = this->group(options(), 0);
  const fabric::Opened& opened = fabric_of(group->endpoint(0)).opened();
  EXPECT_EQ(opened.provider, GetParam());
  EXPECT_TRUE(opened.software);
  EXPECT_FALSE(opened.domain.empty());
  EXPECT_EQ(opened.library, fabric::library_version());
  EXPECT_EQ(opened.completion_data_bytes, 8U);
  EXPECT_EQ(opened.wait_descriptor, GetParam() != "shm");
  EXPECT_TRUE(opened.manual_progress);
}

TEST_P(Fabric, FragmentsAreOneMessage) {
  fabric::Options small = options();
  small.fragment_bytes = 1000;
  auto group = this->group(small, 20'000);
  const Bytes bytes = pattern(10'500, 1);
  group->run([&](Endpoint& endpoint) -> base::Task<void> {
    if (endpoint.rank() == 0) {
      Write write(1, kRegion, 77, bytes, {kKind, 5});
      auto wrote = co_await endpoint.write(std::move(write));
      CO_ASSERT_OK(wrote);
    } else {
      auto arrival = co_await endpoint.next(kKind);
      CO_ASSERT_OK(arrival);
      EXPECT_EQ(arrival->bytes, 10'500U);
      EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), group->memory(1).begin() + 77));
    }
  });
  auto& sender = fabric_of(group->endpoint(0));
  EXPECT_EQ(sender.counters().sent_of(Traffic::data).messages, 1U);
  EXPECT_EQ(sender.counters().sent_of(Traffic::data).bytes, 10'500U);
  EXPECT_GE(sender.statistics().fragments, 11U);
  EXPECT_LE(sender.statistics().fragments, 12U);
}

TEST_P(Fabric, WritesAreNotCopiedAndMessagesAre) {
  auto group = this->group(options(), 1U << 20);
  const Bytes bytes = pattern(1U << 20, 2);
  std::uint64_t after_write[2] = {};
  group->run([&](Endpoint& endpoint) -> base::Task<void> {
    std::uint64_t& copied = after_write[endpoint.rank()];
    if (endpoint.rank() == 0) {
      Write write(1, kRegion, 0, bytes, {kKind, 0});
      auto wrote = co_await endpoint.write(std::move(write));
      CO_ASSERT_OK(wrote);
      copied = fabric_of(endpoint).statistics().copied_bytes;
      Message message(1, {kKind, 1}, std::span(bytes).first(9000));
      wrote = co_await endpoint.send(std::move(message));
      CO_ASSERT_OK(wrote);
    } else {
      auto arrival = co_await endpoint.next(kKind);
      CO_ASSERT_OK(arrival);
      copied = fabric_of(endpoint).statistics().copied_bytes;
      arrival = co_await endpoint.next(kKind);
      CO_ASSERT_OK(arrival);
    }
  });
  for (const int rank : {0, 1}) {
    EXPECT_EQ(fabric_of(group->endpoint(rank)).statistics().copied_bytes, 9000U);
    // By the time that it is looked at, the message may have come as well.
    EXPECT_TRUE(after_write[rank] == 0 || (rank == 1 && after_write[rank] == 9000));
  }
}

TEST_P(Fabric, CreditsRunOutAndComeBack) {
  fabric::Options few = options();
  few.credits_per_peer = 2;
  auto group = this->group(few, 100'000);
  const Bytes bytes = pattern(100'000, 3);
  constexpr std::uint32_t kMessages = 300;
  group->run([&](Endpoint& endpoint) -> base::Task<void> {
    if (endpoint.rank() == 0) {
      base::TaskGroup all(endpoint.loop());
      for (std::uint32_t i = 0; i < kMessages; ++i) {
        const auto span = std::span(bytes).first(i * 37 % 20'000);
        if (i % 2 == 0) {
          all.spawn(endpoint.write(Write(1, kRegion, 0, span, {kKind, i})));
        } else {
          all.spawn(endpoint.send(Message(1, {kKind, i}, span)));
        }
      }
      auto sent = co_await all.join();
      CO_ASSERT_OK(sent);
    } else {
      for (std::uint32_t i = 0; i < kMessages; ++i) {
        auto arrival = co_await endpoint.next(kKind);
        CO_ASSERT_OK(arrival);
        EXPECT_EQ(arrival->index, i);
      }
    }
  });
  const auto sender = fabric_of(group->endpoint(0)).statistics();
  const auto receiver = fabric_of(group->endpoint(1)).statistics();
  EXPECT_GT(sender.waits_for_credit, 0U);
  EXPECT_GT(receiver.credits_sent, kMessages / 2);
  // They are no messages of anybody's.
  EXPECT_EQ(group->endpoint(1).counters().sent, Counters().sent);
}

TEST_P(Fabric, APeerThatGivesNoCreditBreaksItsLinkInTime) {
  fabric::Options few = options();
  few.credits_per_peer = 2;
  few.peer_timeout = 300ms;
  auto group = this->group(few, 100);
  group->run([&](Endpoint& endpoint) -> base::Task<void> {
    if (endpoint.rank() == 1) {
      std::this_thread::sleep_for(1500ms);  // with its loop
      endpoint.fail(gone());
      co_return;
    }
    std::optional<base::Error> broken;
    endpoint.on_link_broken([&](int peer, const base::Error& why) {
      EXPECT_EQ(peer, 1);
      broken = why;
      endpoint.fail(gone());
    });
    const base::Time begin = endpoint.loop().now();
    base::Result<void> sent;
    for (int i = 0; i < 10 && sent; ++i) {
      Message message(1, {kKind, 0}, {});
      sent = co_await endpoint.send(std::move(message));
    }
    EXPECT_FALSE(sent);
    CO_ASSERT_TRUE(broken.has_value());
    EXPECT_EQ(broken->kind, base::ErrorKind::deadline_exceeded);
    EXPECT_THAT(broken->message, HasSubstr("no progress for 300 ms: rank 1"));
    EXPECT_GE(endpoint.loop().now() - begin, 300ms);
    EXPECT_LT(endpoint.loop().now() - begin, 1400ms);
  });
}

TEST_P(Fabric, AnEndpointThatNeverSleepsLooksForStalledLinks) {
  fabric::Options restless = options();
  restless.credits_per_peer = 2;
  restless.peer_timeout = 300ms;
  restless.spin = 10s;
  auto group = this->group(restless, 0);
  group->run([&](Endpoint& endpoint) -> base::Task<void> {
    if (endpoint.rank() == 1) {
      std::this_thread::sleep_for(1500ms);  // with its loop
      endpoint.fail(gone());
      co_return;
    }
    base::Time broken{0};
    endpoint.on_link_broken([&](int, const base::Error&) {
      broken = endpoint.loop().now();
      endpoint.fail(gone());
    });
    const base::Time begin = endpoint.loop().now();
    base::Result<void> sent;
    while (sent) {
      Message message(1, {kKind, 0}, {});
      sent = co_await endpoint.send(std::move(message));
    }
    EXPECT_LT(broken - begin, 1400ms);
  });
}

// Stopped for longer than a peer may be silent: what came meanwhile is read before anybody is
// blamed.
TEST_P(Fabric, AfterAPauseOfOnesOwnNobodyIsBlamed) {
  fabric::Options few = options();
  few.credits_per_peer = 2;
  few.peer_timeout = 400ms;
  auto group = this->group(few, 0);
  std::atomic<bool> paused = false;
  group->run([&](Endpoint& endpoint) -> base::Task<void> {
    endpoint.on_link_broken([&endpoint](int, const base::Error& why) {
      ADD_FAILURE() << why.message;
      endpoint.fail(gone());
    });
    constexpr std::uint32_t kMessages = 10;
    if (endpoint.rank() == 1) {  // gives credit a moment after the other has looked
      while (!paused) std::this_thread::sleep_for(1ms);
      std::this_thread::sleep_for(50ms);
      for (std::uint32_t i = 0; i < kMessages; ++i) {
        auto arrival = co_await endpoint.next(kKind);
        CO_ASSERT_OK(arrival);
      }
    } else {
      base::TaskGroup all(endpoint.loop());
      for (std::uint32_t i = 0; i < kMessages; ++i) {
        all.spawn(endpoint.send(Message(1, {kKind, i}, {})));
      }
      co_await endpoint.loop().sleep_for(20ms);  // what may go has gone
      std::this_thread::sleep_for(1s);
      paused = true;
      auto sent = co_await all.join();
      CO_ASSERT_OK(sent);
    }
    auto closed = co_await endpoint.shutdown();
    EXPECT_TRUE(closed);
  });
}

TEST_P(Fabric, AnIdleEndpointSleeps) {
  auto group = this->group(options(), 0);
  group->run([&](Endpoint& endpoint) -> base::Task<void> {
    co_await endpoint.loop().sleep_for(20ms);
    const auto before = fabric_of(endpoint).statistics();
    co_await endpoint.loop().sleep_for(200ms);
    const auto after = fabric_of(endpoint).statistics();
    EXPECT_GT(after.sleeps, before.sleeps);
    EXPECT_GT(after.polls, before.polls);
    EXPECT_GT(after.polling_cpu, 0ns);
    // One poll a nap, or a wait on the descriptor; spinning would be some hundred thousands.
    EXPECT_LT(after.polls - before.polls, 5000U);
  });
}

TEST_P(Fabric, AnotherJobsTokenIsRefused) {
  std::vector<std::unique_ptr<base::Loop>> loops;
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (const int rank : {0, 1}) {
    fabric::Options mine = options();
    mine.token = rank == 0 ? "the job" : "another";
    mine.connect_timeout = 1s;
    loops.push_back(std::make_unique<base::RealLoop>());
    auto made = fabric::FabricEndpoint::make(*loops.back(), rank, 2, mine);
    ASSERT_TRUE(made) << made.error().message;
    endpoints.push_back(std::move(*made));
  }
  std::vector<std::vector<std::byte>> descriptors;
  for (auto& endpoint : endpoints) descriptors.push_back(*endpoint->descriptor());
  Group group(std::move(loops), nullptr, std::move(endpoints));
  group.run([&](Endpoint& endpoint) -> base::Task<void> {
    auto connected = co_await endpoint.connect(descriptors);
    CO_ASSERT_TRUE(!connected);
    EXPECT_THAT(connected.error().message, HasSubstr("another job's token"));
    EXPECT_EQ(connected.error().kind,
              endpoint.rank() == 0 ? base::ErrorKind::refused : base::ErrorKind::deadline_exceeded);
  });
}

TEST_P(Fabric, PeersThatDoNotComeAreNamed) {
  fabric::Options hasty = options();
  hasty.connect_timeout = 200ms;
  auto group = fabric_group(3, FabricLoops::one_each, hasty);
  std::vector<std::vector<std::byte>> descriptors;
  for (int rank = 0; rank < 3; ++rank) descriptors.push_back(*group->endpoint(rank).descriptor());
  group->run([&](Endpoint& endpoint) -> base::Task<void> {
    if (endpoint.rank() != 0) co_return;
    auto connected = co_await endpoint.connect(descriptors);
    CO_ASSERT_TRUE(!connected);
    EXPECT_EQ(connected.error().kind, base::ErrorKind::deadline_exceeded);
    EXPECT_THAT(connected.error().message, HasSubstr("in 200 ms: ranks 1, 2"));
    EXPECT_EQ(connected.error().rank, 1);
  });
}

// What a user without privileges may lock.
void limit_locked_memory(rlim_t bytes) {
  const rlimit limit{bytes, bytes};
  ::setrlimit(RLIMIT_MEMLOCK, &limit);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct capabilities[2] = {};
  ::syscall(SYS_capset, &header, capabilities);
}

// 0 if the refusal says all that it should.
int register_too_much(fabric::Options options) {
  limit_locked_memory(64 * 1024);
  options.pin_memory = true;
  base::RealLoop loop;
  auto endpoint = fabric::FabricEndpoint::make(loop, 0, 1, options);
  if (!endpoint) return 2;
  Bytes memory(1U << 20);
  (*endpoint)->register_memory(kRegion, memory);
  auto blob = (*endpoint)->descriptor();
  if (blob) return 3;
  const std::string& what = blob.error().message;
  const bool clear = what.find("may lock 65536 bytes") != std::string::npos &&
                     what.find("ulimit -l") != std::string::npos &&
                     what.find("registering region 1") != std::string::npos;
  return clear ? 0 : 4;
}

TEST_P(Fabric, ARefusedRegistrationNamesTheLimit) {
  // In a process of its own: privileges do not come back.
  const pid_t child = ::fork();
  if (child == 0) ::_exit(register_too_much(options()));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_P(Fabric, WhatIsNotThereIsRefused) {
  base::RealLoop loop;
  fabric::Options wrong = options();
  wrong.device = "no_such_device";
  auto endpoint = fabric::FabricEndpoint::make(loop, 0, 2, wrong);
  ASSERT_FALSE(endpoint);
  EXPECT_EQ(endpoint.error().kind, base::ErrorKind::unavailable);
  EXPECT_THAT(endpoint.error().message, HasSubstr("device no_such_device"));
  wrong = options();
  wrong.provider = "sockets";
  endpoint = fabric::FabricEndpoint::make(loop, 0, 2, wrong);
  ASSERT_FALSE(endpoint);
  EXPECT_EQ(endpoint.error().kind, base::ErrorKind::invalid_argument);
  wrong = options();
  wrong.credits_per_peer = 1'000'000;
  endpoint = fabric::FabricEndpoint::make(loop, 0, 2, wrong);
  ASSERT_FALSE(endpoint);
  EXPECT_THAT(endpoint.error().message, HasSubstr("too few receive buffers"));
}

std::string provider_name(const testing::TestParamInfo<std::string>& tested) {
  return tested.param == "shm" ? "shm" : "tcp_ofi_rxm";
}

INSTANTIATE_TEST_SUITE_P(Providers, Fabric, testing::Values("shm", "tcp;ofi_rxm"), provider_name);

TEST(FabricMix, RanksMustUseOneProvider) {
  base::RealLoop loop;
  auto one = fabric::FabricEndpoint::make(loop, 0, 2, on("shm"));
  auto other = fabric::FabricEndpoint::make(loop, 1, 2, on("tcp;ofi_rxm"));
  ASSERT_TRUE(one && other);
  const std::vector<std::vector<std::byte>> descriptors = {*(*one)->descriptor(),
                                                           *(*other)->descriptor()};
  std::optional<base::Error> error;
  const auto connect = [&]() -> base::Task<void> {
    auto connected = co_await (*one)->connect(descriptors);
    if (!connected) error = connected.error();
    loop.stop();
  };
  loop.spawn(connect());
  loop.run();
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message, HasSubstr("rank 0 has shm, rank 1 tcp;ofi_rxm"));
}

}  // namespace
}  // namespace dlobd::transport
