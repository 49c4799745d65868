// What every transport::Endpoint must do when something ends: failures, broken links, shutdown.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <thread>

#include "contract.h"

namespace dlobd::transport {
namespace {

using namespace std::chrono_literals;

base::Task<void> expect_failure(Endpoint& endpoint, Kind kind, int& failures) {
  auto arrival = co_await endpoint.next(kind);
  EXPECT_FALSE(arrival);
  if (!arrival) {
    EXPECT_EQ(arrival.error(), gone());
    ++failures;
  }
}

TEST_P(Contract, FailWakesEveryWaiterAndEndsLaterCalls) {
  auto group = this->group(2, 100);
  const Bytes bytes = pattern(100, 9);
  group->run([&](Endpoint& endpoint) -> base::Task<void> {
    endpoint.on_link_broken([](int, const base::Error&) {});
    int failures = 0;
    for (Kind kind = 0; kind < 5; ++kind) {
      endpoint.loop().spawn(expect_failure(endpoint, kind, failures));
    }
    co_await endpoint.loop().sleep_for(5ms);
    EXPECT_EQ(failures, 0);
    endpoint.fail(gone());
    endpoint.fail(base::Error(base::ErrorKind::io_error, "a later one changes nothing"));
    co_await endpoint.loop().sleep_for(5ms);
    EXPECT_EQ(failures, 5);
    EXPECT_EQ(endpoint.error(), gone());
    const int peer = 1 - endpoint.rank();
    Write write(peer, kRegion, 0, bytes, {kKind, 0});
    auto wrote = co_await endpoint.write(std::move(write));
    EXPECT_FALSE(wrote);
    Message message(peer, {kKind, 0}, bytes);
    wrote = co_await endpoint.send(std::move(message));
    CO_ASSERT_TRUE(!wrote);
    EXPECT_EQ(wrote.error(), gone());
    auto arrival = co_await endpoint.next(kKind);
    EXPECT_FALSE(arrival);
  });
}

base::Task<void> write_until_failure(Endpoint& endpoint, const Bytes& bytes, int& failures) {
  while (true) {
    Write write(1 - endpoint.rank(), kRegion, 0, bytes, {kKind, 0});
    auto wrote = co_await endpoint.write(std::move(write));
    if (wrote) continue;
    EXPECT_EQ(wrote.error(), gone());
    ++failures;
    co_return;
  }
}

TEST_P(Contract, FailWakesWritersInTheMiddleOfTheirBytes) {
  auto group = this->group(2, 4U << 20);
  const Bytes bytes = pattern(4U << 20, 10);
  group->run([&](Endpoint& endpoint) -> base::Task<void> {
    endpoint.on_link_broken([](int, const base::Error&) {});
    int failures = 0;
    if (endpoint.rank() == 0) {
      for (int i = 0; i < 4; ++i)
        endpoint.loop().spawn(write_until_failure(endpoint, bytes, failures));
    }
    co_await endpoint.loop().sleep_for(20ms);
    endpoint.fail(gone());
    co_await endpoint.loop().sleep_for(20ms);
    EXPECT_EQ(failures, endpoint.rank() == 0 ? 4 : 0);
  });
}

TEST_P(Contract, ABrokenLinkIsReportedByRankAndOthersStayPending) {
  auto group = this->group(4, 100);
  group->run([&](Endpoint& endpoint) -> base::Task<void> {
    if (endpoint.rank() == 2) {
      endpoint.fail(gone());
      co_return;
    }
    int reported = -1;
    endpoint.on_link_broken([&](int peer, const base::Error& why) {
      EXPECT_EQ(reported, -1);
      EXPECT_NE(why.message.find("rank 2"), std::string::npos) << why.message;
      reported = peer;
    });
    int failures = 0;
    endpoint.loop().spawn(expect_failure(endpoint, kKind, failures));
    for (int i = 0; i < 1000 && reported < 0; ++i) co_await endpoint.loop().sleep_for(2ms);
    EXPECT_EQ(reported, 2);
    EXPECT_EQ(failures, 0);
    // Links between survivors still work.
    const int peer = endpoint.rank() == 0 ? 1 : endpoint.rank() == 1 ? 3 : 0;
    Message message(peer, {kOtherKind, 1}, {});
    auto sent = co_await endpoint.send(std::move(message));
    CO_ASSERT_OK(sent);
    auto arrival = co_await endpoint.next(kOtherKind);
    CO_ASSERT_OK(arrival);
    co_await endpoint.loop().sleep_for(100ms);
    EXPECT_EQ(failures, 0);
    // Nobody leaves before all have come to here.
    endpoint.on_link_broken([](int, const base::Error&) {});
    for (const int other : {0, 1, 3}) {
      if (other == endpoint.rank()) continue;
      Message through(other, {kOtherKind, 2}, {});
      sent = co_await endpoint.send(std::move(through));
      CO_ASSERT_OK(sent);
    }
    for (int i = 0; i < 2; ++i) {
      arrival = co_await endpoint.next(kOtherKind);
      CO_ASSERT_OK(arrival);
    }
    endpoint.fail(gone());
    co_await endpoint.loop().sleep_for(5ms);
    EXPECT_EQ(failures, 1);
  });
}

TEST_P(Contract, WithoutAHandlerABrokenLinkFailsTheEndpoint) {
  auto group = this->group(2, 100);
  group->run([&](Endpoint& endpoint) -> base::Task<void> {
    if (endpoint.rank() == 1) {
      endpoint.fail(gone());
      co_return;
    }
    auto arrival = co_await endpoint.next(kKind);
    CO_ASSERT_TRUE(!arrival);
    EXPECT_EQ(arrival.error().kind, base::ErrorKind::peer_lost);
    EXPECT_EQ(arrival.error().rank, 1);
    EXPECT_TRUE(arrival.error().message.starts_with("peer lost: rank 1: "))
        << arrival.error().message;
  });
}

TEST_P(Contract, AnOrderlyShutdownHandsEverythingOverAndIsNoFailure) {
  auto group = this->group(3, 2U << 20);
  const Bytes bytes = pattern(1U << 20, 11);
  int reports = 0;
  group->run([&](Endpoint& endpoint) -> base::Task<void> {
    endpoint.on_link_broken([&](int, const base::Error&) { ++reports; });
    // Rank 1 is late, and leaves late.
    if (endpoint.rank() == 1) co_await endpoint.loop().sleep_for(30ms);
    for (int step = 1; step < 3; ++step) {
      const int peer = (endpoint.rank() + step) % 3;
      Write write(peer, kRegion, endpoint.rank() < peer ? 0 : 1U << 20, bytes, {kKind, 0});
      auto wrote = co_await endpoint.write(std::move(write));
      CO_ASSERT_OK(wrote);
    }
    for (int i = 0; i < 2; ++i) {
      auto arrival = co_await endpoint.next(kKind);
      CO_ASSERT_OK(arrival);
    }
    auto closed = co_await endpoint.shutdown();
    EXPECT_TRUE(closed) << closed.error().message;
    EXPECT_FALSE(endpoint.error());
    co_await endpoint.loop().sleep_for(20ms);
  });
  EXPECT_EQ(reports, 0);
}

// Of peers that do not come, or do not leave.
class ContractDeadlines : public testing::TestWithParam<Factory> {};

TEST_P(ContractDeadlines, APeerThatDoesNotConnectIsTheErrorsRank) {
  for (const int absent : {0, 1}) {
    Limits limits;
    limits.connect_timeout = 200ms;
    auto group = GetParam().make(2, limits);
    const auto descriptors = group->describe(0);
    group->run([&](Endpoint& endpoint) -> base::Task<void> {
      if (endpoint.rank() == absent) co_return;
      auto connected = co_await endpoint.connect(descriptors);
      CO_ASSERT_TRUE(!connected);
      EXPECT_EQ(connected.error().rank, absent) << connected.error().message;
    });
  }
}

TEST_P(ContractDeadlines, APeerThatDoesNotSayGoodbyeIsLost) {
  for (const int stays : {0, 1}) {
    Limits limits;
    limits.peer_timeout = GetParam().slowness * 300ms;
    auto group = GetParam().make(2, limits);
    group->connect(0);
    std::atomic<bool> left = false;
    group->run([&](Endpoint& endpoint) -> base::Task<void> {
      if (endpoint.rank() == stays) {
        while (!left) co_await endpoint.loop().sleep_for(5ms);
        co_return;
      }
      std::vector<int> reported;
      endpoint.on_link_broken([&](int peer, const base::Error&) { reported.push_back(peer); });
      auto closed = co_await endpoint.shutdown();
      left = true;
      EXPECT_EQ(reported, std::vector<int>{stays});
      CO_ASSERT_TRUE(!closed);
      EXPECT_EQ(closed.error().kind, base::ErrorKind::peer_lost);
      EXPECT_EQ(closed.error().rank, stays);
      EXPECT_EQ(closed.error().message,
                fmt::format("no goodbye in {} ms: ranks {}", GetParam().slowness * 300, stays));
    });
  }
}

TEST_P(ContractDeadlines, AfterAPauseOfOnesOwnAPeerHasItsTimeToSayGoodbye) {
  Limits limits;
  limits.peer_timeout = GetParam().slowness * 400ms;
  auto group = GetParam().make(2, limits);
  group->connect(0);
  std::atomic<bool> paused = false;
  group->run([&](Endpoint& endpoint) -> base::Task<void> {
    if (endpoint.rank() == 0) {
      endpoint.loop().call_after(5ms, [&] {
        std::this_thread::sleep_for(2 * limits.peer_timeout);
        paused = true;
      });
    } else {
      while (!paused) co_await endpoint.loop().sleep_for(5ms);
      co_await endpoint.loop().sleep_for(20ms);
    }
    auto closed = co_await endpoint.shutdown();
    CO_ASSERT_OK(closed);
  });
}

std::vector<Factory> that_heed_limits() {
  const auto all = factories();
  std::vector<Factory> found;
  std::copy_if(all.begin(), all.end(), std::back_inserter(found),
               [](const Factory& each) { return each.heeds_limits; });
  return found;
}

INSTANTIATE_TEST_SUITE_P(Transports, ContractDeadlines, testing::ValuesIn(that_heed_limits()),
                         factory_name);

}  // namespace
}  // namespace dlobd::transport
