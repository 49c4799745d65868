#include "metrics/run_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "metrics/process.h"
#include "metrics/run_folder.h"
#include "metrics/summary.h"

namespace dlobd::metrics {
namespace {

// Above this share of the steps' time a record says that its phases miss something.
constexpr double kUnattributedShare = 0.02;
constexpr std::size_t kMaxWarnings = 1000;

bool adds_up(const StepRow& row) {
  base::Duration sum = row.totals.unattributed;
  for (const base::Duration phase : row.totals.phases) {
    if (phase.count() < 0) return false;
    sum += phase;
  }
  return sum == row.totals.wall && row.totals.unattributed.count() >= 0;
}

template <class... Call>
struct Overloaded : Call... {
  using Call::operator()...;
};
template <typename... Call>
Overloaded(Call...) -> Overloaded<Call...>;  // clang 14 deduces none for an aggregate

}  // namespace

RunRecorder::RunRecorder(RunConfig config, Start start)
    : config_(std::move(config)), start_(start) {}

void RunRecorder::warn(std::string message) {
  if (warnings_.size() >= kMaxWarnings) return;
  if (std::find(warnings_.begin(), warnings_.end(), message) == warnings_.end()) {
    warnings_.push_back(std::move(message));
  }
}

void RunRecorder::add(int rank, std::span<const std::byte> blob) {
  const auto report = decode(blob);
  if (!report) {
    warn(fmt::format("a report of rank {} was lost: {}", rank, report.error().message));
    return;
  }
  add(rank, *report);
}

const RankStarted* RunRecorder::started(int rank) const {
  const auto found = started_.find(rank);
  return found == started_.end() ? nullptr : &found->second;
}

void RunRecorder::add(int rank, const Report& report) {
  // The sender is who it is by its link, whatever the report says.
  std::visit(
      Overloaded{
          [&](const RankStarted& value) { started_.insert_or_assign(rank, value); },
          [&](const std::vector<StepRow>& rows) {
            for (StepRow row : rows) {
              row.rank = rank;
              if (!adds_up(row)) {
                warn(
                    fmt::format("the phases of a step do not add up to its wall time: "
                                "rank {}, first at step {}",
                                rank, first_wrong_.try_emplace(rank, row.step).first->second));
              }
              steps_.push_back(row);
            }
          },
          [&](ApartRow row) {
            row.rank = rank;
            aparts_.push_back(row);
          },
          [&](const EvaluationRow& row) { evaluations_.push_back(row); },
          [&](const RankSummary& value) {
            summaries_.insert_or_assign(rank, value).first->second.rank = rank;
          },
          [&](const Warning& warning) { warn(fmt::format("rank {}: {}", rank, warning.message)); },
          [&](const RankFailed& failed) { failures_.insert_or_assign(rank, failed.error); }},
      report);
}

RunRecord RunRecorder::record(RunStatus status, std::optional<std::string> error) const {
  RunRecord record;
  record.source = start_.source;
  record.status = status;
  record.error = std::move(error);
  record.started_at = iso_time(start_.unix_ns);
  record.config = config_;
  record.warnings = warnings_;
  record.steps = steps_;
  record.evaluations = evaluations_;

  std::map<int, std::int64_t> training_started_unix_ns;
  for (const auto& [rank, started] : started_) {
    if (start_.source == RunSource::measured) {
      training_started_unix_ns[rank] = started.training_started_unix_ns;
    }
    const std::string& host = started.environment.host;
    if (std::find(record.hosts.begin(), record.hosts.end(), host) != record.hosts.end()) continue;
    record.hosts.push_back(host);
    if (record.hosts.size() == 1) {
      record.environment = started.environment;
    } else {
      record.other_hosts.push_back(started.environment);
    }
  }
  const auto loss_local = config_.defects.find("loss_local");
  record.summary =
      summarize({steps_, aparts_, evaluations_, training_started_unix_ns, start_.unix_ns,
                 loss_local != config_.defects.end() && loss_local->second == "faithful"});
  const auto left_over = record.summary.phases.find("unattributed");
  if (left_over != record.summary.phases.end() && left_over->second.share > kUnattributedShare) {
    record.warnings.push_back(
        fmt::format("{:.1f} % of the steps' time is in no phase (unattributed)",
                    100 * left_over->second.share));
  }

  for (int rank = 0; rank < start_.world_size; ++rank) {
    const auto found = summaries_.find(rank);
    if (found != summaries_.end()) {
      record.ranks.push_back(found->second);
      continue;
    }
    // Lost, or not at its end yet: what is known of it.
    RankSummary partial;
    partial.rank = rank;
    partial.complete = false;
    if (const auto started = started_.find(rank); started != started_.end()) {
      partial.role = started->second.role;
      partial.pid = started->second.pid;
      partial.host = started->second.environment.host;
    }
    for (const StepRow& row : steps_) {
      if (row.rank == rank) partial.samples_seen += row.samples;
    }
    record.ranks.push_back(std::move(partial));
    record.warnings.push_back(
        fmt::format("rank {} did not report its end: its counts are missing, its "
                    "last steps may be",
                    rank));
  }
  return record;
}

base::Result<std::filesystem::path> RunRecorder::write(const std::filesystem::path& out,
                                                       RunStatus status,
                                                       std::optional<std::string> error) const {
  return write_run(out, record(status, std::move(error)));
}

}  // namespace dlobd::metrics
