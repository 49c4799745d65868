// What every transport::Endpoint must do, run over all implementations of factories(): delivery.
#include "contract.h"

#include <algorithm>

#include "seeds.h"

namespace dlobd::transport {
namespace {

using namespace std::chrono_literals;

TEST_P(Contract, WritesLandAtTheirOffsetsBeforeTheirNotifications) {
  auto group = this->group(2, 1000);
  const Bytes first = pattern(300, 1);
  const Bytes second = pattern(200, 2);
  group->run([&](Endpoint& endpoint) -> base::Task<void> {
    if (endpoint.rank() == 0) {
      Write one(1, kRegion, 700, first, {kKind, 41});
      auto wrote = co_await endpoint.write(std::move(one));
      CO_ASSERT_OK(wrote);
      Write two(1, kRegion, 0, second, {kKind, 42});
      wrote = co_await endpoint.write(std::move(two));
      CO_ASSERT_OK(wrote);
    } else {
      const auto memory = group->memory(1);
      auto arrival = co_await endpoint.next(kKind);
      CO_ASSERT_OK(arrival);
      EXPECT_EQ(arrival->source, 0);
      EXPECT_EQ(arrival->index, 41U);
      EXPECT_EQ(arrival->bytes, 300U);
      EXPECT_TRUE(arrival->payload.empty());
      EXPECT_TRUE(std::equal(first.begin(), first.end(), memory.begin() + 700));
      arrival = co_await endpoint.next(kKind);
      CO_ASSERT_OK(arrival);
      EXPECT_EQ(arrival->index, 42U);
      EXPECT_TRUE(std::equal(second.begin(), second.end(), memory.begin()));
      EXPECT_TRUE(std::all_of(memory.begin() + 200, memory.begin() + 700,
                              [](std::byte byte) { return byte == std::byte{0}; }));
    }
  });
}

TEST_P(Contract, ArrivalsOfAKindKeepTheirOrderWhateverTheirSizes) {
  auto group = this->group(2, 100'000);
  const Bytes bytes = pattern(100'000, 3);
  group->run([&](Endpoint& endpoint) -> base::Task<void> {
    constexpr std::uint32_t kMessages = 200;
    base::Random random(4);
    if (endpoint.rank() == 0) {
      base::TaskGroup writes(endpoint.loop());
      for (std::uint32_t i = 0; i < kMessages; ++i) {
        const std::size_t size = random.below(10) == 0 ? random.below(100'000) : random.below(200);
        const auto span = std::span(bytes).first(size);
        const Notification what{i % 3 == 0 ? kOtherKind : kKind, i};
        if (i % 2 == 0 || size > kMaxMessageBytes) {
          writes.spawn(endpoint.write(Write(1, kRegion, 0, span, what)));
        } else {
          writes.spawn(endpoint.send(Message(1, what, span)));
        }
      }
      auto all = co_await writes.join();
      CO_ASSERT_OK(all);
    } else {
      for (const bool other : {false, true}) {
        for (std::uint32_t i = 0; i < kMessages; ++i) {
          if ((i % 3 == 0) != other) continue;
          auto arrival = co_await endpoint.next(other ? kOtherKind : kKind);
          CO_ASSERT_OK(arrival);
          EXPECT_EQ(arrival->index, i);
        }
      }
    }
  });
}

TEST_P(Contract, MessagesOfZeroBytesArrive) {
  auto group = this->group(2, 0);
  group->run([&](Endpoint& endpoint) -> base::Task<void> {
    const int peer = 1 - endpoint.rank();
    Write write(peer, kRegion, 0, {}, {kKind, 5});
    auto wrote = co_await endpoint.write(std::move(write));
    CO_ASSERT_OK(wrote);
    Message message(peer, {kKind, 6}, {});
    wrote = co_await endpoint.send(std::move(message));
    CO_ASSERT_OK(wrote);
    for (const std::uint32_t index : {5U, 6U}) {
      auto arrival = co_await endpoint.next(kKind);
      CO_ASSERT_OK(arrival);
      EXPECT_EQ(arrival->index, index);
      EXPECT_EQ(arrival->bytes, 0U);
    }
  });
}

TEST_P(Contract, TwoSidedMessagesCarryTheirPayloadUpToTheLargest) {
  auto group = this->group(2, 0);
  const std::vector<std::size_t> sizes = {1, 47, 4096, kMaxMessageBytes - 1, kMaxMessageBytes, 1};
  group->run([&](Endpoint& endpoint) -> base::Task<void> {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const Bytes bytes = pattern(sizes[i], i);
      if (endpoint.rank() == 0) {
        Message message(1, {kKind, static_cast<std::uint32_t>(i)}, bytes);
        auto sent = co_await endpoint.send(std::move(message));
        CO_ASSERT_OK(sent);
      } else {
        auto arrival = co_await endpoint.next(kKind);
        CO_ASSERT_OK(arrival);
        EXPECT_EQ(arrival->index, i);
        EXPECT_EQ(arrival->bytes, sizes[i]);
        EXPECT_TRUE(arrival->payload == bytes) << sizes[i];
      }
    }
  });
}

TEST_P(Contract, BytesMayChangeWhenWriteReturns) {
  constexpr std::size_t kSize = 300'000;
  constexpr std::uint32_t kTimes = 20;
  auto group = this->group(2, kSize * kTimes);
  group->run([&](Endpoint& endpoint) -> base::Task<void> {
    Bytes bytes(kSize);
    for (std::uint32_t i = 0; i < kTimes; ++i) {
      if (endpoint.rank() == 0) {
        std::fill(bytes.begin(), bytes.end(), static_cast<std::byte>(i + 1));
        Write write(1, kRegion, i * kSize, bytes, {kKind, i});
        auto wrote = co_await endpoint.write(std::move(write));
        CO_ASSERT_OK(wrote);
        std::fill(bytes.begin(), bytes.end(), std::byte{0xff});
      } else {
        auto arrival = co_await endpoint.next(kKind);
        CO_ASSERT_OK(arrival);
        const auto landed = group->memory(1).subspan(i * kSize, kSize);
        EXPECT_EQ(std::count(landed.begin(), landed.end(), static_cast<std::byte>(i + 1)),
                  static_cast<std::ptrdiff_t>(kSize));
      }
    }
  });
}

TEST_P(Contract, LargeWritesArriveWhole) {
  constexpr std::size_t kSize = (kSanitized ? 5U : 64U) << 20;
  auto group = this->group(2, kSize);
  const Bytes bytes = pattern(kSize, 5);
  group->run([&](Endpoint& endpoint) -> base::Task<void> {
    if (endpoint.rank() == 0) {
      Write write(1, kRegion, 0, bytes, {kKind, 0});
      auto wrote = co_await endpoint.write(std::move(write));
      CO_ASSERT_OK(wrote);
    } else {
      auto arrival = co_await endpoint.next(kKind);
      CO_ASSERT_OK(arrival);
      EXPECT_EQ(arrival->bytes, kSize);
      EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), group->memory(1).begin()));
    }
  });
}

// Each rank writes `rounds` messages of random sizes into its own strip of each peer's region.
base::Task<base::Result<void>> write_to_all(Endpoint& endpoint, const Bytes& bytes, int rounds,
                                            std::size_t strip) {
  base::TaskGroup writes(endpoint.loop());
  base::Random random = base::Random::of({6, static_cast<std::uint64_t>(endpoint.rank())});
  for (int round = 0; round < rounds; ++round) {
    for (int step = 1; step < endpoint.world_size(); ++step) {
      const int peer = (endpoint.rank() + step) % endpoint.world_size();
      const auto position = static_cast<std::size_t>(endpoint.rank() * rounds + round);
      const auto span = std::span(bytes).subspan(random.below(1000), random.below(strip));
      writes.spawn(endpoint.write(Write(peer, kRegion, position * strip, span,
                                        {kKind, static_cast<std::uint32_t>(round)})));
    }
  }
  auto all = co_await writes.join();
  co_return all;
}

TEST_P(Contract, AllToAllOfRandomSizes) {
  constexpr int kRounds = 8;
  constexpr std::size_t kStrip = 50'000;
  const Bytes bytes = pattern(kStrip + 1000, 7);
  for (int n = 2; n <= 5; ++n) {
    auto group = this->group(n, kStrip * static_cast<std::size_t>(n * kRounds));
    group->run([&](Endpoint& endpoint) -> base::Task<void> {
      auto wrote = co_await write_to_all(endpoint, bytes, kRounds, kStrip);
      CO_ASSERT_OK(wrote);
      for (int i = 0; i < kRounds * (n - 1); ++i) {
        auto arrival = co_await endpoint.next(kKind);
        CO_ASSERT_OK(arrival);
      }
    });
    for (int source = 0; source < n; ++source) {
      base::Random random = base::Random::of({6, static_cast<std::uint64_t>(source)});
      for (int round = 0; round < kRounds; ++round) {
        for (int step = 1; step < n; ++step) {
          const auto span = std::span(bytes).subspan(random.below(1000), random.below(kStrip));
          const auto landed =
              group->memory((source + step) % n)
                  .subspan(static_cast<std::size_t>(source * kRounds + round) * kStrip);
          EXPECT_TRUE(std::equal(span.begin(), span.end(), landed.begin()))
              << n << " ranks, source " << source << ", round " << round;
        }
      }
    }
  }
}

TEST_P(Contract, CountersAreExactByTrafficClassOnBothSides) {
  auto group = this->group(2, 1000);
  const Bytes bytes = pattern(1000, 8);
  group->run([&](Endpoint& endpoint) -> base::Task<void> {
    if (endpoint.rank() == 0) {
      for (const std::size_t size : {1000U, 0U, 17U}) {
        Write write(1, kRegion, 0, std::span(bytes).first(size), {kKind, 0});
        auto wrote = co_await endpoint.write(std::move(write));
        CO_ASSERT_OK(wrote);
      }
      Write apart(1, kRegion, 0, std::span(bytes).first(5), {kKind, 0}, Traffic::apart);
      auto wrote = co_await endpoint.write(std::move(apart));
      CO_ASSERT_OK(wrote);
      Message message(1, {kKind, 0}, std::span(bytes).first(33));
      wrote = co_await endpoint.send(std::move(message));
      CO_ASSERT_OK(wrote);
    } else {
      for (int i = 0; i < 5; ++i) {
        auto arrival = co_await endpoint.next(kKind);
        CO_ASSERT_OK(arrival);
      }
    }
  });
  const auto expect = [](const Count& count, std::uint64_t messages, std::uint64_t sum) {
    EXPECT_EQ(count.messages, messages);
    EXPECT_EQ(count.bytes, sum);
  };
  const Counters& sender = group->endpoint(0).counters();
  const Counters& receiver = group->endpoint(1).counters();
  expect(sender.sent_of(Traffic::data), 3, 1017);
  expect(sender.sent_of(Traffic::control), 1, 33);
  expect(sender.sent_of(Traffic::apart), 1, 5);
  EXPECT_EQ(sender.sent, receiver.received);
  for (std::size_t i = 0; i < kTrafficClasses; ++i) {
    expect(sender.received[i], 0, 0);
    expect(receiver.sent[i], 0, 0);
  }
}

TEST_P(Contract, ArrivalsSayWhenTheSenderWasReady) {
  auto group = this->group(2, 1000);
  std::atomic<base::Time::rep> woken{0};  // the clock of rank 0 just before it sends
  group->run([&](Endpoint& endpoint) -> base::Task<void> {
    if (endpoint.rank() == 0) {
      co_await endpoint.loop().sleep_for(1ms);
      woken = endpoint.loop().now().count();
      Message message(1, {kKind, 0}, {});
      auto sent = co_await endpoint.send(std::move(message));
      CO_ASSERT_OK(sent);
    } else {
      auto arrival = co_await endpoint.next(kKind);
      CO_ASSERT_OK(arrival);
      EXPECT_GE(arrival->sender_ready, base::Time(woken.load()));
      EXPECT_LE(arrival->sender_ready, endpoint.loop().now());
    }
  });
}

TEST_P(Contract, WritesOutsideARegionAreRefusedAndHarmNothing) {
  auto group = this->group(2, 100);
  const Bytes bytes = pattern(100, 12);
  group->run([&](Endpoint& endpoint) -> base::Task<void> {
    const int peer = 1 - endpoint.rank();
    Write beyond(peer, kRegion, 1, bytes, {kKind, 0});
    auto wrote = co_await endpoint.write(std::move(beyond));
    EXPECT_FALSE(wrote);
    Write far(peer, kRegion, ~std::uint64_t{0}, bytes, {kKind, 0});
    wrote = co_await endpoint.write(std::move(far));
    EXPECT_FALSE(wrote);
    Write unknown(peer, kRegion + 1, 0, bytes, {kKind, 0});
    wrote = co_await endpoint.write(std::move(unknown));
    CO_ASSERT_TRUE(!wrote);
    EXPECT_EQ(wrote.error().kind, base::ErrorKind::invalid_argument);
    Write right(peer, kRegion, 0, bytes, {kKind, 9});
    wrote = co_await endpoint.write(std::move(right));
    CO_ASSERT_OK(wrote);
    auto arrival = co_await endpoint.next(kKind);
    CO_ASSERT_OK(arrival);
    EXPECT_EQ(arrival->index, 9U);
  });
}

TEST_P(Contract, OneRankAloneNeedsNobody) {
  auto group = this->group(1, 10);
  group->run([](Endpoint& endpoint) -> base::Task<void> {
    auto closed = co_await endpoint.shutdown();
    EXPECT_TRUE(closed);
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, Contract, testing::ValuesIn(factories()), factory_name);

}  // namespace
}  // namespace dlobd::transport
