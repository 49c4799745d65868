// What is special about the simulated network: exact times, repeatable runs, faults.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "base/random.h"
#include "group.h"
#include "transport/simulated/network.h"

namespace dlobd::transport::simulated {
namespace {

using namespace std::chrono_literals;
using Bytes = std::vector<std::byte>;

constexpr Kind kKind = 1;

LinkModel simple_model() {
  LinkModel model;
  model.latency = 1000ns;
  model.bandwidth_bytes_per_second = 1'000'000'000;  // a byte each nanosecond
  model.send_per_message = 100ns;
  model.receive_per_message = 50ns;
  return model;
}

// Some ranks in virtual time; what they see is written down.
class World {
 public:
  World(int world_size, const LinkModel& model, std::uint64_t seed = 1,
        Payload payload = Payload::moved, std::size_t region_bytes = 4096)
      : network(loop, model, world_size, seed, payload) {
    std::vector<Bytes> descriptors;
    for (int rank = 0; rank < world_size; ++rank) {
      memory.emplace_back(region_bytes);
      endpoints.push_back(network.endpoint(rank));
      endpoints.back()->register_memory(kRegion, memory.back());
      descriptors.push_back(*endpoints.back()->descriptor());
      broken.emplace_back();
    }
    for (auto& endpoint : endpoints) {
      const int rank = endpoint->rank();
      endpoint->on_link_broken([this, rank](int peer, const base::Error& why) {
        broken[static_cast<std::size_t>(rank)].push_back(
            fmt::format("{}: {} at {}", peer, why.message, loop.now().count()));
      });
      loop.spawn(connect(*endpoint, descriptors));
    }
    loop.run();
    EXPECT_EQ(connected, world_size);
    for (auto& endpoint : endpoints) loop.spawn(receive(*endpoint));
    loop.run();
  }

  ~World() {
    for (auto& endpoint : endpoints) {
      endpoint->fail(base::Error(base::ErrorKind::cancelled, "end of the test"));
    }
    loop.run();
    EXPECT_EQ(under_way, 0) << "coroutines that hang";
  }

  void write(int from, int to, std::size_t bytes, std::uint32_t index = 0,
             std::byte fill = std::byte{7}) {
    loop.spawn(
        run_write(*endpoints[static_cast<std::size_t>(from)], to, Bytes(bytes, fill), index));
  }

  // "arrives at 2150: 0 -> 1, index 0", "left at 1100: ..."
  std::vector<std::string> events;
  std::vector<std::vector<std::string>> broken;  // by rank
  base::VirtualLoop loop;
  std::deque<Bytes> memory;
  Network network;
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  int connected = 0;
  int under_way = 0;
  // Where set: each message has a strip of its own, and is looked at when it arrives.
  std::size_t strip_bytes = 0;
  int wrong = 0;

 private:
  [[nodiscard]] std::size_t strip_of(int source, std::uint32_t index) const {
    return (static_cast<std::size_t>(source) * 7 + index) * strip_bytes;
  }

  void look_at(int rank, const Arrival& arrival) {
    const auto strip = std::span(memory[static_cast<std::size_t>(rank)])
                           .subspan(strip_of(arrival.source, arrival.index), arrival.bytes);
    const auto fill = static_cast<std::byte>(arrival.source * 16 + static_cast<int>(arrival.index));
    if (std::count(strip.begin(), strip.end(), fill) !=
        static_cast<std::ptrdiff_t>(arrival.bytes)) {
      ++wrong;
    }
  }

  base::Task<void> connect(Endpoint& endpoint, std::vector<Bytes> descriptors) {
    auto made = co_await endpoint.connect(descriptors);
    EXPECT_TRUE(made);
    ++connected;
  }

  base::Task<void> receive(Endpoint& endpoint) {
    ++under_way;
    while (true) {
      auto arrival = co_await endpoint.next(kKind);
      if (!arrival) break;
      if (strip_bytes > 0) look_at(endpoint.rank(), *arrival);
      events.push_back(fmt::format("{} -> {} index {} arrives at {}", arrival->source,
                                   endpoint.rank(), arrival->index, loop.now().count()));
    }
    --under_way;
  }

  base::Task<void> run_write(Endpoint& endpoint, int to, Bytes bytes, std::uint32_t index) {
    ++under_way;
    Write write(to, kRegion, strip_of(endpoint.rank(), index), bytes, {kKind, index});
    auto left = co_await endpoint.write(std::move(write));
    std::fill(bytes.begin(), bytes.end(), std::byte{0xee});
    if (left) {
      events.push_back(fmt::format("{} -> {} index {} has left at {}", endpoint.rank(), to, index,
                                   loop.now().count()));
    }
    --under_way;
  }
};

using Lines = std::vector<std::string>;

TEST(Simulated, OneMessageTakesWhatItsStagesTake) {
  World world(2, simple_model());
  world.write(0, 1, 1000);
  world.loop.run();
  // 100 to write it, 1000 on the sender's link, 1000 of latency, then 50 to take it in: the
  // receiver's link runs 1000 behind the sender's.
  EXPECT_EQ(world.events,
            (Lines{"0 -> 1 index 0 has left at 1100", "0 -> 1 index 0 arrives at 2150"}));
}

TEST(Simulated, AnEmptyMessageTakesLatencyAndCosts) {
  World world(2, simple_model());
  world.write(0, 1, 0);
  world.loop.run();
  EXPECT_EQ(world.events,
            (Lines{"0 -> 1 index 0 has left at 100", "0 -> 1 index 0 arrives at 1150"}));
}

TEST(Simulated, TwoSendersShareTheReceiversLink) {
  World world(3, simple_model());
  world.write(0, 2, 1000);
  world.write(1, 2, 1000);
  world.loop.run();
  EXPECT_EQ(world.events,
            (Lines{"0 -> 2 index 0 has left at 1100", "1 -> 2 index 0 has left at 1100",
                   "0 -> 2 index 0 arrives at 2150", "1 -> 2 index 0 arrives at 3150"}));
}

TEST(Simulated, OneSendersMessagesShareItsLink) {
  World world(3, simple_model());
  world.write(0, 1, 1000);
  world.write(0, 2, 1000);
  world.loop.run();
  EXPECT_EQ(world.events,
            (Lines{"0 -> 1 index 0 has left at 1100", "0 -> 2 index 0 has left at 2100",
                   "0 -> 1 index 0 arrives at 2150", "0 -> 2 index 0 arrives at 3150"}));
}

TEST(Simulated, LinksWorkInBothDirectionsAtOnce) {
  World world(2, simple_model());
  world.write(0, 1, 1000);
  world.write(1, 0, 1000);
  world.loop.run();
  EXPECT_EQ(world.events,
            (Lines{"0 -> 1 index 0 has left at 1100", "1 -> 0 index 0 has left at 1100",
                   "0 -> 1 index 0 arrives at 2150", "1 -> 0 index 0 arrives at 2150"}));
}

TEST(Simulated, PiecesCostTheirSystemCalls) {
  LinkModel model = simple_model();
  model.piece_bytes = 256;
  model.send_per_piece = 10ns;
  model.receive_per_piece = 20ns;
  {
    World world(2, model);
    world.write(0, 1, 1000);
    world.loop.run();  // hidden behind the link, but for the first piece
    EXPECT_EQ(world.events,
              (Lines{"0 -> 1 index 0 has left at 1110", "0 -> 1 index 0 arrives at 2160"}));
  }
  model.send_per_piece = 1000ns;
  model.receive_per_piece = 0ns;
  {
    World world(2, model);
    world.write(0, 1, 1000);
    world.loop.run();  // four pieces: the sender's processor is slower than its link
    EXPECT_EQ(world.events,
              (Lines{"0 -> 1 index 0 has left at 4100", "0 -> 1 index 0 arrives at 5150"}));
  }
  model.send_per_piece = 0ns;
  model.receive_per_piece = 1000ns;
  {
    World world(2, model);
    world.write(0, 1, 1000);
    world.loop.run();  // and so the receiver's: 1100 + 4 * 1000 + 50
    EXPECT_EQ(world.events,
              (Lines{"0 -> 1 index 0 has left at 1100", "0 -> 1 index 0 arrives at 5150"}));
  }
}

TEST(Simulated, TimesOfLargeMessagesAreExact) {
  LinkModel model;
  model.bandwidth_bytes_per_second = 12'500'000'000;
  EXPECT_EQ(model.wire_time(1'000'000'000'000), 80s);
  EXPECT_EQ(model.wire_time(1), 1ns);  // rounded up
  EXPECT_EQ(model.wire_time(25), 2ns);
  model.bandwidth_bytes_per_second = 0;
  EXPECT_EQ(model.wire_time(1U << 30), 0ns);
}

Lines random_traffic(std::uint64_t seed, Payload payload = Payload::moved) {
  LinkModel model = simple_model();
  model.jitter = 5us;
  World world(4, model, seed, payload);
  base::Random random(99);  // the same traffic each time: only the network differs
  for (std::uint32_t i = 0; i < 200; ++i) {
    const int from = static_cast<int>(random.below(4));
    const int to = (from + 1 + static_cast<int>(random.below(3))) % 4;
    world.write(from, to, random.below(4096), i);
  }
  world.loop.run();
  return world.events;
}

TEST(Simulated, ASeedGivesTheSameRunAndAnotherADifferentOne) {
  const Lines first = random_traffic(1);
  EXPECT_EQ(first.size(), 400U);
  EXPECT_EQ(first, random_traffic(1));
  EXPECT_NE(first, random_traffic(2));
  EXPECT_EQ(first, random_traffic(1, Payload::counted));
}

TEST(Simulated, CountedPayloadMovesNoBytesButCountsThem) {
  World world(2, simple_model(), 1, Payload::counted);
  world.write(0, 1, 1000);
  world.loop.run();
  EXPECT_EQ(world.events.size(), 2U);
  EXPECT_EQ(world.endpoints[1]->counters().received_of(Traffic::data).bytes, 1000U);
  EXPECT_EQ(std::count(world.memory[1].begin(), world.memory[1].end(), std::byte{0}), 4096);
}

std::size_t landed(const World& world, std::size_t rank) {
  const Bytes& memory = world.memory[rank];
  return static_cast<std::size_t>(std::count(memory.begin(), memory.end(), std::byte{7}));
}

TEST(SimulatedFaults, AKilledSenderLeavesAHalfMessageAndNoNotification) {
  World world(3, simple_model());
  world.network.at_message(0, 2, Fault::kill(0));
  world.write(0, 1, 100, 1, std::byte{9});
  world.write(0, 1, 1000, 2);
  world.loop.run();
  EXPECT_EQ(landed(world, 1), 500U);
  EXPECT_EQ(
      std::count_if(world.events.begin(), world.events.end(),
                    [](const std::string& line) { return line.find("arrives") < line.size(); }),
      1);
  // It left from 200 to 1200 and arrived from 1200 on: struck at 1700, heard of at 2700.
  EXPECT_EQ(world.broken[1],
            Lines{"0: peer closed the connection while receiving a message: rank 0, "
                  "500 of 1000 bytes at 2700"});
  EXPECT_EQ(world.broken[2], Lines{"0: peer closed the connection: rank 0 at 2700"});
  ASSERT_TRUE(world.endpoints[0]->error());
  EXPECT_EQ(world.endpoints[0]->error()->kind, base::ErrorKind::cancelled);
  EXPECT_FALSE(world.network.faults().alive(0));
}

TEST(SimulatedFaults, WhatLeftBeforeTheKillStillArrives) {
  LinkModel model = simple_model();
  model.detection_delay = 10us;
  World world(2, model);
  world.write(0, 1, 1000);
  world.network.strike_at(1500ns, Fault::kill(0));
  world.loop.run();
  EXPECT_EQ(landed(world, 1), 1000U);
  EXPECT_EQ(world.events.back(), "0 -> 1 index 0 arrives at 2150");
  EXPECT_EQ(world.broken[1], Lines{"0: peer closed the connection: rank 0 at 12500"});
}

TEST(SimulatedFaults, AStoppedRankTakesInAWindowThenItsWritersGiveUp) {
  LinkModel model = simple_model();
  model.window_bytes = 1500;
  model.peer_timeout = 1s;
  World world(3, model);
  world.network.strike(Fault::stop(1));
  world.write(0, 1, 1000, 1);
  world.write(0, 1, 1000, 2);
  world.write(0, 2, 1000, 3);
  world.loop.run();
  EXPECT_EQ(world.events,
            (Lines{"0 -> 1 index 1 has left at 1100", "0 -> 2 index 3 has left at 3100",
                   "0 -> 2 index 3 arrives at 4150"}));
  EXPECT_EQ(world.broken[0],
            Lines{"1: the peer takes no more bytes: rank 1, none in 1000 ms at 1000002100"});
  EXPECT_TRUE(world.broken[1].empty());
  EXPECT_TRUE(world.broken[2].empty());
  EXPECT_FALSE(world.endpoints[1]->error());
}

TEST(SimulatedFaults, AStoppedSenderFallsSilentInTheMiddle) {
  World world(2, simple_model());
  world.network.at_message(0, 1, Fault::stop(0));
  world.write(0, 1, 1000);
  world.write(0, 1, 1000);
  world.loop.run();
  EXPECT_EQ(landed(world, 1), 500U);
  EXPECT_EQ(world.endpoints[1]->counters().received_of(Traffic::data).messages, 0U);
  EXPECT_TRUE(world.broken[1].empty());  // only the heartbeat will tell
}

TEST(SimulatedFaults, ACutLinkBreaksAtBothEndsAndNowhereElse) {
  World world(3, simple_model());
  world.network.at_message(0, 1, Fault::cut(1, 0));
  world.write(0, 1, 1000, 1);
  world.write(0, 2, 1000, 2);
  world.loop.run();
  EXPECT_EQ(landed(world, 1), 500U);
  EXPECT_EQ(world.broken[0], Lines{"1: connection reset: rank 1 at 1600"});
  EXPECT_EQ(world.broken[1], Lines{"0: connection reset: rank 0 at 1600"});
  EXPECT_TRUE(world.broken[2].empty());
  EXPECT_EQ(world.events.back(), "0 -> 2 index 2 arrives at 3150");
  EXPECT_TRUE(world.network.faults().is_cut(0, 1));
  EXPECT_FALSE(world.network.faults().is_cut(0, 2));
}

TEST(SimulatedFaults, ARankCutOffHearsNothingAndNobodyIsTold) {
  LinkModel model = simple_model();
  model.window_bytes = 100;
  model.peer_timeout = 1s;
  World world(3, model);
  world.network.strike(Fault::cut_off(2));
  world.write(0, 1, 10, 1);
  world.write(0, 2, 50, 2);   // into the window
  world.write(2, 1, 500, 3);  // does not fit
  world.loop.run();
  EXPECT_EQ(world.endpoints[2]->counters().received_of(Traffic::data).messages, 0U);
  EXPECT_EQ(world.endpoints[1]->counters().received_of(Traffic::data).messages, 1U);
  EXPECT_TRUE(world.broken[0].empty());
  EXPECT_TRUE(world.broken[1].empty());
  ASSERT_EQ(world.broken[2].size(), 1U);
  EXPECT_TRUE(world.broken[2][0].starts_with("1: the peer takes no more bytes"));
}

TEST(SimulatedFaults, ListenersHearOfEachFault) {
  World world(2, simple_model());
  Lines heard;
  world.network.faults().on_change([&](const Fault& fault) {
    heard.push_back(fmt::format("{} {} at {}", static_cast<int>(fault.kind), fault.rank,
                                world.loop.now().count()));
  });
  world.network.strike_at(5us, Fault::kill(1));
  world.network.at_message(0, 1, Fault::stop(0));
  world.write(0, 1, 0);
  world.loop.run();
  EXPECT_EQ(heard, (Lines{"1 0 at 1100", "0 1 at 5000"}));
}

// Whatever strikes, whenever: who is notified has the bytes, and only links on the fault's way
// break.
TEST(SimulatedFaults, NoNotificationWithoutItsBytes) {
  int runs_with_losses = 0;
  int runs_with_breaks = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    LinkModel model = simple_model();
    model.jitter = 2us;
    model.window_bytes = 2000;
    World world(4, model, seed, Payload::moved, std::size_t{4 * 7 * 1024});
    world.strip_bytes = 1024;
    base::Random random = base::Random::of({seed, 17});
    const int victim = static_cast<int>(random.below(4));
    const int other = (victim + 1 + static_cast<int>(random.below(3))) % 4;
    const std::array<Fault, 4> kinds = {Fault::kill(victim), Fault::stop(victim),
                                        Fault::cut(victim, other), Fault::cut_off(victim)};
    const Fault fault = kinds[random.below(4)];
    world.network.at_message(static_cast<int>(random.below(4)), 1 + random.below(20), fault);
    for (int rank = 0; rank < 4; ++rank) {
      for (int step = 1; step < 4; ++step) {
        for (std::uint32_t i = 0; i < 7; ++i) {
          world.write(rank, (rank + step) % 4, 1 + random.below(1024), i,
                      static_cast<std::byte>(rank * 16 + static_cast<int>(i)));
        }
      }
    }
    world.loop.run();
    EXPECT_EQ(world.wrong, 0) << "seed " << seed;
    std::uint64_t told = 0;
    bool breaks = false;
    for (std::size_t rank = 0; rank < 4; ++rank) {
      told += world.endpoints[rank]->counters().received_of(Traffic::data).messages;
      for (const std::string& report : world.broken[rank]) {
        breaks = true;
        EXPECT_TRUE(fault.concerns(static_cast<int>(rank), report[0] - '0')) << report;
      }
    }
    if (told < 4 * 21) ++runs_with_losses;
    if (breaks) ++runs_with_breaks;
  }
  EXPECT_GT(runs_with_losses, 200);
  EXPECT_GT(runs_with_breaks, 200);
}

}  // namespace
}  // namespace dlobd::transport::simulated
