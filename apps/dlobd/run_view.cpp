#include "run_view.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <utility>

#include "complaint.h"
#include "compute/blas.h"
#include "exit_status.h"
#include "metrics/port_bytes.h"
#include "metrics/process.h"
#include "metrics/run_folder.h"
#include "training/checkpoint.h"
#include "training/identity.h"
#include "training/replicas.h"

namespace dlobd::app {

namespace {

metrics::ProgressGoal goal_of(const training::Config& config, std::uint64_t total_steps) {
  metrics::ProgressGoal goal;
  goal.epochs = config.epochs;
  goal.steps = total_steps;
  return goal;
}

std::uint64_t total_steps_of(const training::Config& config, std::uint64_t train_records) {
  if (config.steps) return *config.steps;
  const auto shards = batches::shard_sizes(train_records, config.ranks);
  const auto plan = batches::agree_on_steps(shards, config.batch.local, config.uneven);
  return plan ? plan->steps * config.epochs.value_or(1) : 0;
}

metrics::RunStatus status_of(const base::Result<training::End>& end) {
  if (!end) return metrics::RunStatus::failed;
  switch (*end) {
    case training::End::finished: return metrics::RunStatus::finished;
    case training::End::interrupted: return metrics::RunStatus::interrupted;
    case training::End::target_missed: return metrics::RunStatus::target_missed;
  }
  return metrics::RunStatus::failed;
}

int exit_status(const base::Result<training::End>& end) {
  if (!end || *end == training::End::target_missed) return kFailed;
  return *end == training::End::interrupted ? kInterrupted : 0;
}

std::string closing_lines(const metrics::RunRecord& record, const training::Config& config) {
  const auto& summary = record.summary;
  std::string text = fmt::format("{} through {}", config.model, record.config.stack);
  if (record.config.behaviour) text += fmt::format(" ({})", *record.config.behaviour);
  // Soft-RoCE has an adapter's provider: only what was opened tells.
  const bool stand_in = record.environment.software_rdma.value_or(false);
  text += fmt::format(" on {} rank{}, {}{}: {} steps, {} samples", config.ranks,
                      config.ranks == 1 ? "" : "s", training::network_label(config),
                      stand_in ? ", software stand-in" : "", summary.steps, summary.samples_seen);
  const bool simulated = record.source == metrics::RunSource::simulated;
  if (summary.train_seconds) {
    text += simulated ? fmt::format(", {:.6f} s of virtual time", *summary.train_seconds)
                      : fmt::format(", {:.1f} s", *summary.train_seconds);
  }
  text += "\n";
  std::vector<std::string> faithful;
  for (const auto& [name, behaviour] : record.config.defects) {
    if (behaviour == "faithful") faithful.push_back(name);
  }
  if (!faithful.empty()) text += fmt::format("  defects: {}\n", fmt::join(faithful, ", "));
  if (record.config.wire_element != "float32") {
    text += fmt::format("  {} on the wire\n", record.config.wire_element);
  }
  if (const auto lacking = training::hypothetical(config)) {
    text += fmt::format("  hypothetical: {}\n", *lacking);
  }
  if (summary.test_accuracy) {
    text += fmt::format("  test accuracy {:.2f} %\n", 100 * *summary.test_accuracy);
  }
  if (summary.samples_per_second) {
    text += fmt::format("  {:.0f} samples/s{}", *summary.samples_per_second,
                        simulated ? " (simulated)" : "");
    if (summary.time_to_first_step_seconds && !simulated) {
      text += fmt::format(", first step after {:.2f} s", *summary.time_to_first_step_seconds);
    }
    text += "\n";
  }
  for (const auto& warning : record.warnings) text += "  warning: " + warning + "\n";
  return text;
}

std::size_t columns_of_stderr() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

// Of the rows that have one: none where a straggler was cut off. Otherwise no number.
double mean_loss(const std::vector<const metrics::StepRow*>& step) {
  double sum = 0;
  double rows = 0;
  for (const auto* row : step) {
    if (row->samples == 0) continue;
    sum += row->loss;
    ++rows;
  }
  return sum / rows;
}

}  // namespace

void complain(const base::Error& error) {
  complain("dlobd train", error.message);
}

RunView::RunView(const training::Config& config, std::uint64_t train_records,
                 metrics::RunSource source, bool json)
    : config_(config),
      json_(json),
      total_steps_(total_steps_of(config, train_records)),
      recorder_(training::run_config(config),
                metrics::RunRecorder::Start{metrics::process_started_unix_ns(),
                                            config.layout().world_size(), source}),
      progress_(
          goal_of(config, total_steps_), isatty(STDERR_FILENO) == 1,
          [](std::string_view text) { show(stderr, text); }, columns_of_stderr) {
  if (config.processor.is_gpu()) {
    warn(
        fmt::format("processor {} is unverified on a GPU: `make check-gpu` holds it against the "
                    "CPU on a host that has one",
                    config.processor.text()));
  }
  if (json) return;
  show(stderr, fmt::format("{} rank{}, batch {} each and {} in all ({} stays when ranks change)\n",
                           config.ranks, config.ranks == 1 ? "" : "s", config.batch.local,
                           config.batch.global, batches::name(config.design.batch_rule)));
}

void RunView::add(int rank, std::span<const std::byte> blob) {
  recorder_.add(rank, blob);
  const auto* started = recorder_.started(rank);
  if (started != nullptr && met_.insert(rank).second) meet(rank, started->environment);
  if (!json_) show_progress();
}

// Once a rank; before its first step.
void RunView::meet(int rank, const metrics::Environment& environment) {
  if (rank == 0 && !json_ && config_.processor.needs_libtorch()) {
    show(stderr, training::computation_text(config_, environment) + "\n");
  }
  const auto& kernel = environment.blas_kernel;
  if (!kernel) return;
  const auto advice = compute::slow_kernel(*kernel, environment.blas_expected_kernel.value_or(""));
  if (advice) {
    recorder_.warn(
        fmt::format("the BLAS computes with its {} kernels on {}, where it could be "
                    "faster: {}",
                    *kernel, environment.host, *advice));
  }
}

std::vector<const metrics::StepRow*> RunView::latest_of_rank_0() const {
  const auto& rows = recorder_.steps();
  const auto found =
      std::find_if(rows.rbegin(), rows.rend(), [](const auto& row) { return row.rank == 0; });
  if (found == rows.rend()) return {};
  return {&*found};
}

// Of the last step that every worker has reported: what is shown of a step does not change. Rows
// come in batches, so each rank is at a step of its own.
std::vector<const metrics::StepRow*> RunView::latest_of_all() const {
  const auto& rows = recorder_.steps();
  const auto workers = static_cast<std::size_t>(config_.ranks);
  std::map<int, std::uint64_t> latest;
  std::uint64_t step = std::numeric_limits<std::uint64_t>::max();
  for (auto row = rows.rbegin(); row != rows.rend() && latest.size() < workers; ++row) {
    if (latest.emplace(row->rank, row->step).second) step = std::min(step, row->step);
  }
  std::vector<const metrics::StepRow*> found;
  if (latest.size() < workers) return found;
  for (auto row = rows.rbegin(); row != rows.rend() && found.size() < workers; ++row) {
    if (row->step == step) found.push_back(&*row);
  }
  return found;
}

void RunView::show_progress() {
  const auto& rows = recorder_.steps();
  const auto& evaluations = recorder_.evaluations();
  if (rows.size() == rows_shown_ && evaluations.size() == evaluations_shown_) return;
  for (; rows_shown_ < rows.size(); ++rows_shown_) samples_ += rows[rows_shown_].samples;
  evaluations_shown_ = evaluations.size();
  const auto step = stacks::loss_is_local(config_.design) ? latest_of_rank_0() : latest_of_all();
  if (step.empty()) return;
  metrics::ProgressPoint point;
  point.epoch = step.front()->epoch;
  point.step = step.front()->step + 1;
  point.samples = samples_;
  point.loss = mean_loss(step);
  if (!evaluations.empty()) point.accuracy = evaluations.back().accuracy;
  progress_.update(point, base::steady_now());
}

// The one that an agreed end leaves, where it is there: a second signal leaves none.
std::optional<std::string> RunView::last_checkpoint() const {
  std::uint64_t step = 0;
  for (const auto& row : recorder_.steps()) step = std::max(step, row.step + 1);
  const std::string folder =
      config_.checkpoint_folder.empty() ? config_.out + "/checkpoints" : config_.checkpoint_folder;
  std::string path = training::checkpoint_path(folder, config_, step);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  return path;
}

base::Result<std::filesystem::path> RunView::write(const metrics::RunRecord& record) const {
  if (run_.empty()) return metrics::write_run(config_.out, record);
  int taken = 0;
  return metrics::write_run(config_.out, record, [this, &taken] {
    const int before = taken++;
    return before == 0 ? run_ : fmt::format("{}-{}", run_, before);
  });
}

// The end that the ranks report, unless their ports say otherwise.
base::Result<training::End> RunView::judged(base::Result<training::End> end) const {
  if (!end) return end;
  const auto trouble = metrics::other_way(recorder_.record(status_of(end), {}));
  if (trouble) return base::fail(base::ErrorKind::unavailable, *trouble);
  return end;
}

int RunView::finish(const base::Result<training::End>& reported) {
  if (!json_) progress_.finish();
  const auto end = judged(reported);
  const std::optional<std::string> error =
      end ? std::optional<std::string>() : std::optional<std::string>(end.error().message);
  const auto record = recorder_.record(status_of(end), error);
  const auto written = write(record);
  if (!end) complain(end.error());
  if (!written) {
    complain(written.error());
    return kFailed;
  }
  if (json_) {
    auto json = metrics::to_json(record);
    json["folder"] = written->string();
    if (const auto checkpoint = last_checkpoint()) json["checkpoint"] = *checkpoint;
    show(stdout,
         fmt::format("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace)));
  } else {
    show(stdout,
         fmt::format("{}  record: {}\n", closing_lines(record, config_), written->string()));
    if (end && *end == training::End::target_missed) {
      show(stdout, fmt::format("  the target of {:.2f} % was missed\n",
                               100 * config_.until_accuracy.value_or(0)));
    }
    if (end && *end == training::End::interrupted) {
      const auto checkpoint = last_checkpoint();
      show(stdout,
           fmt::format("  interrupted{}\n", checkpoint ? "; go on with --resume " + *checkpoint
                                                       : ", before a checkpoint could be written"));
    }
  }
  return exit_status(end);
}

}  // namespace dlobd::app
