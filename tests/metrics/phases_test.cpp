#include "metrics/phases.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/random.h"

namespace dlobd::metrics {
namespace {

base::Task<void> random_step(base::Loop& loop, Phases& phases, base::Random& random) {
  phases.begin_step();
  std::vector<std::unique_ptr<Phases::Scope>> open;
  std::vector<std::unique_ptr<Phases::Transfer>> transfers;
  for (int i = 0; i < 40; ++i) {
    co_await loop.sleep_for(base::Duration(static_cast<std::int64_t>(random.below(1000))));
    const std::uint64_t choice = random.below(4);
    if (choice == 0 && open.size() < 4) {
      const auto phase = static_cast<Phase>(random.below(kPhases));
      open.push_back(std::make_unique<Phases::Scope>(phases, phase));
    } else if (choice == 1 && !open.empty()) {
      open.pop_back();
    } else if (choice == 2) {
      transfers.push_back(std::make_unique<Phases::Transfer>(phases));
    } else if (!transfers.empty()) {
      transfers.pop_back();
    }
  }
  const Phases::Totals totals = phases.end_step();
  base::Duration sum = totals.unattributed;
  for (const base::Duration phase : totals.phases) {
    EXPECT_GE(phase.count(), 0);
    sum += phase;
  }
  EXPECT_EQ(sum, totals.wall);
  EXPECT_GE(totals.unattributed.count(), 0);
  EXPECT_LE(totals.communication, totals.wall);
  EXPECT_EQ(totals.start + totals.wall, loop.now());
  while (!open.empty()) open.pop_back();
}

TEST(Phases, AddUpToTheWallTimeHoweverTheyNest) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    base::VirtualLoop loop;
    Phases phases(loop);
    base::Random random(seed);
    loop.spawn(random_step(loop, phases, random));
    loop.run();
  }
}

base::Task<void> nested_step(base::Loop& loop, Phases& phases, Phases::Totals& totals) {
  co_await loop.sleep_for(base::Duration(3));
  phases.begin_step();
  co_await loop.sleep_for(base::Duration(1));
  {
    const auto outer = phases.enter(Phase::exchange);
    co_await loop.sleep_for(base::Duration(10));
    {
      const auto inner = phases.enter(Phase::update);
      co_await loop.sleep_for(base::Duration(100));
    }
    co_await loop.sleep_for(base::Duration(1000));
  }
  totals = phases.end_step();
}

TEST(Phases, AnInnerPhaseSuspendsTheOneAroundIt) {
  base::VirtualLoop loop;
  Phases phases(loop);
  Phases::Totals totals;
  loop.spawn(nested_step(loop, phases, totals));
  loop.run();
  EXPECT_EQ(totals.start.count(), 3);
  EXPECT_EQ(totals.wall.count(), 1111);
  EXPECT_EQ(totals.of(Phase::exchange).count(), 1010);
  EXPECT_EQ(totals.of(Phase::update).count(), 100);
  EXPECT_EQ(totals.unattributed.count(), 1);
}

}  // namespace
}  // namespace dlobd::metrics
