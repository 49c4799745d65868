// BigDL's stragglers: the driver's rule, and what a job does about those that it cuts off.
#include "exchange/bigdl_drop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "exchange/designs.h"
#include "exchange/group.h"
#include "seeds.h"

namespace dlobd::exchange::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Pass = BigDlOracle::Pass;

// 4 workers, thresholds from 3 iterations each; k = 12 / 4.
BigDlDrop quarter() {
  BigDlDrop drop;
  drop.share = 0.25;
  drop.warm_up = 2;
  drop.every = 3;
  return drop;
}

// One iteration: the time of each worker's pass in ns, 0 for one that is cut off.
int iterate(bigdl::DropRule& rule, const std::vector<int>& times) {
  for (std::size_t worker = 0; worker < times.size(); ++worker) {
    if (times[worker] > 0) rule.finish(static_cast<int>(worker), base::Duration(times[worker]));
  }
  return rule.end_iteration();
}

// The rule of quarter() when it has its first threshold: 24 ns, the third largest of those taken
// after the third iteration's.
bigdl::DropRule with_threshold() {
  bigdl::DropRule rule(quarter(), 4);
  for (int i = 0; i < 2; ++i) iterate(rule, {90, 91, 92, 93});
  iterate(rule, {10, 11, 12, 13});
  iterate(rule, {20, 21, 22, 23});
  iterate(rule, {14, 15, 16, 17});
  return rule;
}

TEST(DropRule, GivesNoLimitUntilTheWarmUpIsOverAndTimesAreGathered) {
  bigdl::DropRule rule(quarter(), 4);
  for (int iteration = 0; iteration < 5; ++iteration) {
    EXPECT_EQ(rule.limit(), std::nullopt) << iteration;
    EXPECT_EQ(iterate(rule, {10, 20, 30, 40}), 4);
  }
  // Taken after the third, from 4 passes of 40 ns at its top; in force after the fifth.
  EXPECT_EQ(rule.limit(), base::Duration(40));
}

TEST(DropRule, TakesTheKthLargestOfTheTimes) {
  bigdl::DropRule rule(quarter(), 4);
  iterate(rule, {10, 70, 30, 40});
  iterate(rule, {50, 11, 60, 12});
  iterate(rule, {20, 21, 22, 23});
  iterate(rule, {1, 1, 1, 1});
  iterate(rule, {1, 1, 1, 1});
  EXPECT_EQ(rule.limit(), base::Duration(50)) << "70, 60, 50";
  // Times are cleared: of 1, 1 and 4 passes more the third largest is 7.
  iterate(rule, {5, 6, 7, 8});
  EXPECT_EQ(rule.limit(), base::Duration(6)) << "8, 7, 6";
}

TEST(DropRule, WhatWasCutOffCountsAndHasNoTime) {
  bigdl::DropRule rule = with_threshold();
  // Two of three are cut off: the largest alone.
  iterate(rule, {20, 21, 22, 23});
  EXPECT_EQ(iterate(rule, {18, 0, 19, 17}), 3);
  iterate(rule, {16, 15, 0, 14});
  iterate(rule, {13, 12, 11, 10});
  EXPECT_EQ(rule.limit(), base::Duration(19));
}

TEST(DropRule, LengthensWhatHasCutOffEnough) {
  bigdl::DropRule rule(quarter(), 4);
  for (int i = 0; i < 6; ++i) iterate(rule, {1000, 1000, 1000, 1000});
  EXPECT_EQ(rule.limit(), base::Duration(1000));
  iterate(rule, {0, 900, 900, 900});
  iterate(rule, {0, 900, 900, 900});
  iterate(rule, {0, 900, 900, 900});
  EXPECT_EQ(rule.limit(), base::Duration(1010));
}

// It is no iteration: neither the threshold's turn nor the row of its times goes on.
TEST(DropRule, DiscardsAnIterationOfTooFewPasses) {
  bigdl::DropRule rule(quarter(), 4);
  for (int i = 0; i < 6; ++i) iterate(rule, {1000, 1000, 1000, 1000});
  EXPECT_EQ(iterate(rule, {0, 500, 0, 500}), 2) << "half of them are enough";
  EXPECT_EQ(iterate(rule, {0, 0, 0, 500}), 0);
  EXPECT_EQ(iterate(rule, {0, 0, 0, 0}), 0);
  EXPECT_EQ(iterate(rule, {500, 500, 500, 500}), 4);
  EXPECT_EQ(rule.limit(), base::Duration(1000));
  // 2 + 3 + 4 were cut off, more than 3.
  EXPECT_EQ(iterate(rule, {500, 500, 500, 500}), 4);
  EXPECT_EQ(rule.limit(), base::Duration(1010));
}

TEST(DropRule, OffCutsNobodyOff) {
  bigdl::DropRule rule(BigDlDrop(), 3);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(iterate(rule, {1, 2, 3}), 3);
    EXPECT_EQ(rule.limit(), std::nullopt);
  }
}

std::size_t count(Group& group, Pass wanted) {
  std::size_t found = 0;
  for (int rank = 0; rank < group.options().workers; ++rank) {
    const auto& passes = group.rank(rank).passes;
    found += static_cast<std::size_t>(std::count(passes.begin(), passes.end(), wanted));
  }
  return found;
}

int finished_in(Group& group, std::uint64_t step) {
  int finished = 0;
  for (int rank = 0; rank < group.options().workers; ++rank) {
    finished += group.rank(rank).passes.at(step) == Pass::finished ? 1 : 0;
  }
  return finished;
}

// Who is cut off is a matter of time; what follows from it is not.
TEST(BigDlDrops, EqualTheOracleThatIsToldWhoWasCutOff) {
  std::size_t cut_off = 0;
  std::size_t never_begun = 0;
  std::size_t discarded = 0;
  for (const int workers : {1, 2, 3, 4, 5, 8}) {
    for (std::uint64_t seed = 0; seed < seeds(40); ++seed) {
      GroupOptions options =
          group_options(bigdl_drop_design(seed % 2 == 0), workers, 1 + seed % 50, seed);
      base::Random random = base::Random::of({seed, 17});
      options.steps = 12;
      options.settle_after = {{4, Settle::parameters_and_optimizer}, {8, Settle::parameters}};
      options.design.bigdl_drop.every = 1 + seed % 3;
      for (int rank = 0; rank < workers; ++rank) {
        for (std::uint64_t step = 0; step < options.steps; ++step) {
          if (random.below(6) == 0) options.slow_passes[{rank, step}] = 20;
        }
      }
      base::VirtualLoop loop;
      Group group(loop, options, simulated_endpoints(loop, workers + 1, seed));
      group.run();
      SCOPED_TRACE(::testing::Message() << "N = " << workers << ", seed " << seed);
      expect_oracle(group);
      expect_closed_form(group);
      if (::testing::Test::HasFatalFailure()) return;
      cut_off += count(group, Pass::cut_off);
      never_begun += count(group, Pass::never_begun);
      for (std::uint64_t step = 0; step < options.steps; ++step) {
        const double least = workers * (1.0 - options.design.bigdl_drop.most);
        discarded += finished_in(group, step) < least ? 1 : 0;
      }
    }
  }
  EXPECT_GT(cut_off, seeds(40));
  EXPECT_GT(never_begun, seeds(40));
  EXPECT_GT(discarded, seeds(40));
}

// Rank 2's pass of step 10 takes twenty times as long as it should; one view, so that a pass is one
// wait. The first threshold is in force from that step on.
GroupOptions straggling(bool drop) {
  GroupOptions options = group_options(bigdl_design(true, true, true), 4, 1, 5);
  options.steps = 40;
  options.settle_after.clear();
  options.slow_passes = {{{2, 10}, 20}};
  if (drop) {
    options.design.bigdl_drop.share = 0.25;
    options.design.bigdl_drop.warm_up = 2;
    options.design.bigdl_drop.every = 8;
  }
  return options;
}

// On a network that takes no time, where a step lasts as long as its slowest pass.
void run_at_once(bool drop, const std::function<void(Group&)>& look) {
  base::VirtualLoop loop;
  transport::simulated::Network network(loop, {}, 5, 1);
  Group group(loop, straggling(drop), endpoints_of(network, 5));
  group.run();
  expect_oracle(group);
  look(group);
}

TEST(BigDlDrops, AStragglerHoldsTheOthersUpNoLongerThanTheThreshold) {
  std::vector<base::Duration> times;  // of the passes that make the first threshold
  std::vector<base::Duration> waiting;
  run_at_once(false, [&](Group& group) {
    for (int rank = 0; rank < 4; ++rank) {
      for (std::size_t step = 0; step < 8; ++step) {
        times.push_back(group.rank(rank).phases.at(step).of(metrics::Phase::compute));
      }
    }
    for (const auto& step : group.rank(0).phases) waiting.push_back(step.wall);
  });
  std::sort(times.rbegin(), times.rend());
  const base::Duration threshold = times.at(7);

  run_at_once(true, [&](Group& group) {
    const auto& steps = group.rank(0).phases;
    const auto& passes = group.rank(2).passes;
    for (std::size_t step = 0; step < 10; ++step) EXPECT_EQ(steps.at(step).wall, waiting.at(step));
    EXPECT_EQ(passes.at(10), Pass::cut_off);
    EXPECT_EQ(steps.at(10).wall, threshold);
    EXPECT_GT(waiting.at(10), 5 * threshold);
    // Its pass runs on: the next steps wait for it as long, and no longer, until it is over.
    std::size_t step = 11;
    base::Duration gone = threshold;
    for (; passes.at(step) == Pass::never_begun; ++step) {
      gone += steps.at(step).wall;
      if (step < 16) {
        EXPECT_EQ(steps.at(step).wall, threshold) << step;
      }
    }
    EXPECT_GT(step, 15U);
    EXPECT_LE(gone, waiting.at(10));
    EXPECT_GT(gone + steps.at(step).wall, waiting.at(10));
    EXPECT_EQ(passes.back(), Pass::finished);
  });
}

TEST(BigDlDrops, SayWhoWasCutOff) {
  base::VirtualLoop loop;
  Group group(loop, straggling(true), simulated_endpoints(loop, 5, 1));
  group.run();
  const auto passes = group.rank(2).passes;
  const auto finished = std::count(passes.begin(), passes.end(), Pass::finished);
  EXPECT_THAT(group.rank(2).exchange().remarks(),
              ElementsAre(HasSubstr(": " + std::to_string(40 - finished) + " of 40 steps")));
}

std::string choice(const std::map<std::string, std::string>& options, const char* behaviour = "",
                   int workers = 4) {
  stacks::Choices choices;
  if (*behaviour != '\0') choices.behaviour = behaviour;
  choices.options = options;
  auto design = stacks::make_design("bigdl", choices);
  if (!design) return design.error().message;
  const auto fits = stacks::check_workers(*design, workers);
  return fits ? "accepted" : fits.error().message;
}

TEST(BigDlDrops, AreRefusedWhereTheyMeanNothing) {
  EXPECT_EQ(choice({{"drop-percentage", "0.04"}}), "accepted");
  EXPECT_EQ(
      choice({{"drop-percentage", "0.04"}, {"drop-every", "10"}, {"drop-warm-up", "0"}}, "fixed"),
      "accepted");
  for (const char* value : {"4", "1", "-0.1", "nan", "4%", ""}) {
    EXPECT_THAT(choice({{"drop-percentage", value}}), HasSubstr("0.04 is 4 of 100")) << value;
  }
  EXPECT_THAT(choice({{"drop-percentage", "0.6"}}), HasSubstr("--max-drop-percentage 0.5"));
  EXPECT_THAT(choice({{"drop-every", "10"}}), HasSubstr("without --drop-percentage"));
  EXPECT_THAT(choice({{"drop-percentage", "0.04"}, {"drop-every", "0"}}), HasSubstr("from 1 to"));
  EXPECT_THAT(choice({{"drop-percentage", "0.04"}, {"drop-every", "6"}}),
              HasSubstr("cuts nobody off: --drop-percentage 0.04 of 24 passes"));
  EXPECT_THAT(choice({{"drop-percentage", "0.04"}}, "improved"),
              HasSubstr("the improved design of the stack bigdl takes no --drop-percentage"));
}

}  // namespace
}  // namespace dlobd::exchange::testing
