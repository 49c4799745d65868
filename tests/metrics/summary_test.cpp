#include "metrics/summary.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sample.h"

namespace dlobd::metrics {
namespace {

using std::chrono::milliseconds;

// Steps of 10 ms one after the other from `start_ms`; the first takes 100 ms.
std::vector<StepRow> steps_of(int rank, int count, std::uint64_t samples) {
  std::vector<StepRow> rows;
  base::Time now{0};
  for (int step = 0; step < count; ++step) {
    StepRow row;
    row.rank = rank;
    row.step = static_cast<std::uint64_t>(step);
    row.totals.start = now;
    row.totals.wall = step == 0 ? milliseconds(100) : milliseconds(10);
    row.totals.phases[static_cast<std::size_t>(Phase::compute)] = row.totals.wall - milliseconds(2);
    row.totals.phases[static_cast<std::size_t>(Phase::update)] = milliseconds(1);
    row.totals.unattributed = milliseconds(1);
    row.totals.communication = milliseconds(5);
    row.samples = samples;
    row.loss = rank + 1;
    now += row.totals.wall;
    rows.push_back(row);
  }
  return rows;
}

TEST(Summary, RateIsWorkOverTimeAfterTheWarmUp) {
  auto steps = steps_of(0, 105, 30);
  const auto others = steps_of(1, 105, 10);
  steps.insert(steps.end(), others.begin(), others.end());
  const std::map<int, std::int64_t> started = {{0, 1'000'000'000}, {1, 1'200'000'000}};
  const RunSummary summary = summarize({steps, {}, {}, started, 500'000'000});
  EXPECT_EQ(summary.steps, 105U);
  EXPECT_EQ(summary.warmup_steps, 5U);
  EXPECT_EQ(summary.samples_seen, 105U * 40);
  // 100 steps of 40 samples in 100 * 10 ms.
  EXPECT_DOUBLE_EQ(*summary.samples_per_second, 4000);
  EXPECT_DOUBLE_EQ(*summary.train_seconds, 1.14);
  EXPECT_DOUBLE_EQ(*summary.first_step_seconds, 0.1);
  // Rank 1 started last: 1.2 s + 0.1 s, from 0.5 s on.
  EXPECT_DOUBLE_EQ(*summary.time_to_first_step_seconds, 0.8);
  // Weighted by samples: (30 * 1 + 10 * 2) / 40.
  EXPECT_DOUBLE_EQ(*summary.loss, 1.25);
  EXPECT_FALSE(summary.test_accuracy);
}

// A straggler that was cut off in the last step has no loss to show.
TEST(Summary, AStepThatWasCutOffHasNoSamplesAndNoLoss) {
  auto steps = steps_of(0, 105, 30);
  auto others = steps_of(1, 105, 10);
  others.back().samples = 0;
  others.back().loss = std::nan("");
  steps.insert(steps.end(), others.begin(), others.end());
  const RunSummary summary = summarize({steps, {}, {}, {}, 1});
  EXPECT_EQ(summary.samples_seen, 105U * 40 - 10);
  EXPECT_DOUBLE_EQ(*summary.samples_per_second, 3990);
  EXPECT_DOUBLE_EQ(*summary.loss, 1);
}

TEST(Summary, TheSlowestRankSetsTheTime) {
  auto steps = steps_of(0, 10, 8);
  auto others = steps_of(1, 10, 8);
  others.back().totals.wall += milliseconds(50);
  steps.insert(steps.end(), others.begin(), others.end());
  const RunSummary summary = summarize({steps, {}, {}, {}, 1});
  EXPECT_DOUBLE_EQ(*summary.samples_per_second, 2 * 5 * 8 / 0.1);
  EXPECT_FALSE(summary.time_to_first_step_seconds);
}

TEST(Summary, EvaluationsAndSnapshotsAreLeftOutOfTheRateAndListed) {
  auto steps = steps_of(0, 15, 1);
  // One evaluation within the warm-up, one snapshot between steps 9 and 10, one evaluation at the
  // end.
  std::vector<ApartRow> aparts;
  const auto pause = [&](std::size_t before, ApartKind kind, milliseconds duration) {
    ApartRow apart;
    apart.kind = kind;
    apart.start = before < steps.size() ? steps[before].totals.start
                                        : steps.back().totals.start + steps.back().totals.wall;
    apart.duration = duration;
    aparts.push_back(apart);
    for (std::size_t i = before; i < steps.size(); ++i) steps[i].totals.start += duration;
  };
  pause(2, ApartKind::evaluation, milliseconds(300));
  pause(10, ApartKind::snapshot, milliseconds(40));
  pause(15, ApartKind::evaluation, milliseconds(500));
  EvaluationRow evaluation;
  evaluation.accuracy = 0.5;
  const std::vector<EvaluationRow> evaluations = {EvaluationRow(), evaluation};
  const RunSummary summary = summarize({steps, aparts, evaluations, {}, 1});
  EXPECT_DOUBLE_EQ(*summary.samples_per_second, 100);
  EXPECT_DOUBLE_EQ(summary.evaluation_seconds, 0.8);
  EXPECT_DOUBLE_EQ(summary.snapshot_seconds, 0.04);
  EXPECT_DOUBLE_EQ(*summary.train_seconds, 0.24 + 0.84);
  EXPECT_DOUBLE_EQ(*summary.test_accuracy, 0.5);
}

TEST(Summary, PhasesAreMeansAndSharesThatAddUpToOne) {
  const auto steps = steps_of(0, 25, 1);
  const RunSummary summary = summarize({steps, {}, {}, {}, 1});
  EXPECT_DOUBLE_EQ(summary.phases.at("compute").mean_ns, 8e6);
  EXPECT_DOUBLE_EQ(summary.phases.at("compute").share, 0.8);
  EXPECT_DOUBLE_EQ(summary.phases.at("communication").share, 0.5);
  double shares = 0;
  for (const auto& [phase, value] : summary.phases) {
    if (phase != "communication") shares += value.share;
  }
  EXPECT_DOUBLE_EQ(shares, 1);
  EXPECT_EQ(summary.phases.size(), kPhases + 2);
}

TEST(Summary, AShortRunKeepsItsLastStep) {
  const RunSummary one = summarize({steps_of(0, 1, 10), {}, {}, {}, 1});
  EXPECT_EQ(one.warmup_steps, 0U);
  EXPECT_DOUBLE_EQ(*one.samples_per_second, 100);
  const RunSummary three = summarize({steps_of(0, 3, 10), {}, {}, {}, 1});
  EXPECT_EQ(three.warmup_steps, 2U);
  EXPECT_DOUBLE_EQ(*three.samples_per_second, 1000);
}

TEST(Summary, ARunWithoutAStepKnowsNothing) {
  const RunSummary summary = summarize({{}, {}, {}, {}, 1});
  EXPECT_EQ(summary.steps, 0U);
  EXPECT_FALSE(summary.samples_per_second);
  EXPECT_FALSE(summary.train_seconds);
  EXPECT_FALSE(summary.loss);
  EXPECT_TRUE(summary.phases.empty());
}

}  // namespace
}  // namespace dlobd::metrics
