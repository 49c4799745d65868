#include "metrics/summary.h"

#include <algorithm>
#include <set>

namespace dlobd::metrics {
namespace {

using base::Duration;
using base::Time;

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// One rank's rows in the order of its clock.
struct RankRows {
  std::vector<StepRow> steps;
  std::vector<ApartRow> aparts;

  [[nodiscard]] std::size_t warmup() const {
    return std::min<std::size_t>(kWarmupSteps, steps.size() - 1);
  }
};

Time end(const StepRow& row) {
  return row.totals.start + row.totals.wall;
}

// Of the rank's clock from `from` to `until`, without evaluations and snapshots.
Duration training_time(const RankRows& rank, Time from, Time until) {
  Duration time = until - from;
  for (const ApartRow& apart : rank.aparts) {
    const Time begin = std::max(apart.start, from);
    const Time stop = std::min(apart.start + apart.duration, until);
    if (stop > begin) time -= stop - begin;
  }
  return time;
}

void add_phases(const std::map<int, RankRows>& ranks, RunSummary& summary) {
  std::map<std::string, Duration> sums;
  Duration wall{0};
  std::uint64_t rows = 0;
  for (const auto& [_, rank] : ranks) {
    for (std::size_t i = rank.warmup(); i < rank.steps.size(); ++i) {
      const Phases::Totals& totals = rank.steps[i].totals;
      for (std::size_t phase = 0; phase < kPhases; ++phase) {
        sums[std::string(kPhaseNames[phase])] += totals.phases[phase];
      }
      sums["unattributed"] += totals.unattributed;
      sums["communication"] += totals.communication;
      wall += totals.wall;
      ++rows;
    }
  }
  for (const auto& [phase, sum] : sums) {
    const auto ns = static_cast<double>(sum.count());
    const double share = wall.count() == 0 ? 0 : ns / static_cast<double>(wall.count());
    summary.phases[phase] = {ns / static_cast<double>(rows), share};
  }
}

void add_rate(const std::map<int, RankRows>& ranks, RunSummary& summary) {
  std::uint64_t samples = 0;
  Duration slowest{0};
  for (const auto& [_, rank] : ranks) {
    for (std::size_t i = rank.warmup(); i < rank.steps.size(); ++i) {
      samples += rank.steps[i].samples;
    }
    const Time from = rank.steps[rank.warmup()].totals.start;
    slowest = std::max(slowest, training_time(rank, from, end(rank.steps.back())));
    summary.warmup_steps = std::max<std::uint64_t>(summary.warmup_steps, rank.warmup());
  }
  if (slowest.count() > 0)
    summary.samples_per_second = static_cast<double>(samples) / seconds(slowest);
}

}  // namespace

RunSummary summarize(const SummaryInput& input) {
  RunSummary summary;
  std::map<int, RankRows> ranks;
  std::set<std::uint64_t> steps;
  for (const StepRow& row : input.steps) {
    ranks[row.rank].steps.push_back(row);
    steps.insert(row.step);
    summary.samples_seen += row.samples;
  }
  summary.steps = steps.size();

  Time last{0};
  std::map<int, Duration> evaluating;
  std::map<int, Duration> snapshotting;
  for (const ApartRow& apart : input.aparts) {
    // A rank without a replica has no steps, and nothing to be left out of them.
    if (const auto rank = ranks.find(apart.rank); rank != ranks.end()) {
      rank->second.aparts.push_back(apart);
    }
    (apart.kind == ApartKind::evaluation ? evaluating : snapshotting)[apart.rank] += apart.duration;
    last = std::max(last, apart.start + apart.duration);
  }
  for (const auto& [_, time] : evaluating) {
    summary.evaluation_seconds = std::max(summary.evaluation_seconds, seconds(time));
  }
  for (const auto& [_, time] : snapshotting) {
    summary.snapshot_seconds = std::max(summary.snapshot_seconds, seconds(time));
  }
  for (const EvaluationRow& row : input.evaluations) last = std::max(last, Time(row.time_ns));
  if (!input.evaluations.empty()) summary.test_accuracy = input.evaluations.back().accuracy;
  if (ranks.empty()) return summary;

  double loss = 0;
  double weight = 0;
  Duration first_step{0};
  std::int64_t first_step_end_unix_ns = 0;
  bool all_started = true;
  for (auto& [number, rank] : ranks) {
    std::sort(rank.steps.begin(), rank.steps.end(),
              [](const StepRow& a, const StepRow& b) { return a.totals.start < b.totals.start; });
    const StepRow& first = rank.steps.front();
    const StepRow& final = rank.steps.back();
    first_step = std::max(first_step, first.totals.wall);
    last = std::max(last, end(final));
    const bool counts = !input.loss_is_local || number == ranks.begin()->first;
    // Of a step that was cut off there is no loss.
    const auto samples = counts ? static_cast<double>(final.samples) : 0;
    if (samples > 0) loss += final.loss * samples;
    weight += samples;
    const auto started = input.training_started_unix_ns.find(number);
    if (started == input.training_started_unix_ns.end()) {
      all_started = false;
    } else {
      first_step_end_unix_ns =
          std::max(first_step_end_unix_ns, started->second + end(first).count());
    }
  }
  if (weight > 0) summary.loss = loss / weight;
  summary.train_seconds = seconds(last);
  summary.first_step_seconds = seconds(first_step);
  if (all_started && input.started_unix_ns > 0) {
    summary.time_to_first_step_seconds =
        seconds(Duration(first_step_end_unix_ns - input.started_unix_ns));
  }
  add_rate(ranks, summary);
  add_phases(ranks, summary);
  return summary;
}

}  // namespace dlobd::metrics
