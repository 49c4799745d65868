#include "run_view.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <utility>

#include "complaint.h"
#include "compute/blas.h"
#include "metrics/port_bytes.h"
#include "metrics/process.h"
#include "metrics/run_folder.h"
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
          [](std::string_view text) { app::show(stderr, text); }, columns_of_stderr) {
  if (config.processor.is_gpu()) {
    warn(
        fmt::format("processor {} is unverified on a GPU: `make check-gpu` holds it against the "
                    "CPU on a host that has one",
                    config.processor.text()));
  }
  if (!json) {
    opening_ = fmt::format("{} rank{}, batch {} each and {} in all ({} stays when ranks change)\n",
                           config.ranks, config.ranks == 1 ? "" : "s", config.batch.local,
                           config.batch.global, batches::name(config.design.batch_rule));
  }
  drawing_ = std::thread([this] { draw(); });
}

RunView::~RunView() {
  close();
}

void RunView::close() {
  {
    const std::lock_guard lock(queue_mutex_);
    closing_ = true;
  }
  queued_or_closing_.notify_one();
  if (drawing_.joinable()) drawing_.join();
}

void RunView::add(int rank, metrics::Blob blob) {
  {
    const std::lock_guard lock(queue_mutex_);
    queue_.emplace_back(rank, std::move(blob));
  }
  queued_or_closing_.notify_one();
}

void RunView::warn(std::string message) {
  const std::lock_guard lock(record_mutex_);
  recorder_.warn(std::move(message));
}

std::map<int, base::Error> RunView::failures() {
  const std::lock_guard lock(record_mutex_);
  take_in();
  return recorder_.failures();
}

void RunView::draw() {
  sigset_t all;  // are for other threads
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  for (bool last = false;;) {
    std::string opening;
    std::optional<metrics::ProgressPoint> point;
    {
      const std::lock_guard lock(record_mutex_);
      take_in();
      opening = std::exchange(opening_, {});
      point = news();
    }
    if (!opening.empty()) app::show(stderr, opening);
    if (point && !json_) progress_.update(*point, base::steady_now());
    if (last) break;
    std::unique_lock lock(queue_mutex_);
    queued_or_closing_.wait(lock, [this] { return closing_ || !queue_.empty(); });
    last = closing_;
  }
  if (!json_) progress_.finish();
}

// With the record locked, so that reports are taken in as they came.
void RunView::take_in() {
  std::vector<std::pair<int, metrics::Blob>> come;
  {
    const std::lock_guard lock(queue_mutex_);
    come.swap(queue_);
  }
  for (const auto& [rank, blob] : come) {
    recorder_.add(rank, blob);
    const auto* started = recorder_.started(rank);
    if (started != nullptr && met_.insert(rank).second) meet(rank, started->environment);
  }
}

// Once a rank; before its first step.
void RunView::meet(int rank, const metrics::Environment& environment) {
  if (rank == 0 && !json_ && config_.processor.needs_libtorch()) {
    opening_ += training::computation_text(config_, environment) + "\n";
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

// How far the run is, where that is not what it was when last asked.
std::optional<metrics::ProgressPoint> RunView::news() {
  const auto& rows = recorder_.steps();
  const auto& evaluations = recorder_.evaluations();
  if (rows.size() == rows_shown_ && evaluations.size() == evaluations_shown_) return std::nullopt;
  for (; rows_shown_ < rows.size(); ++rows_shown_) samples_ += rows[rows_shown_].samples;
  evaluations_shown_ = evaluations.size();
  const auto step = stacks::loss_is_local(config_.design) ? latest_of_rank_0() : latest_of_all();
  if (step.empty()) return std::nullopt;
  metrics::ProgressPoint point;
  point.epoch = step.front()->epoch;
  point.step = step.front()->step + 1;
  point.samples = samples_;
  point.loss = mean_loss(step);
  if (!evaluations.empty()) point.accuracy = evaluations.back().accuracy;
  return point;
}

// The end that the ranks report, unless their ports say otherwise.
base::Result<training::End> RunView::judged(base::Result<training::End> end) const {
  if (!end) return end;
  const auto trouble = metrics::other_way(recorder_.record(status_of(end), {}));
  if (trouble) return base::fail(base::ErrorKind::unavailable, *trouble);
  return end;
}

void RunView::write(const base::Result<training::End>& reported, std::string_view run) {
  const std::lock_guard lock(record_mutex_);
  take_in();
  auto end = judged(reported);
  const std::optional<std::string> error =
      end ? std::optional<std::string>() : std::optional<std::string>(end.error().message);
  auto record = recorder_.record(status_of(end), error);
  int taken = 0;
  auto folder = run.empty()
                    ? metrics::write_run(config_.out, record)
                    : metrics::write_run(config_.out, record, [run, &taken] {
                        const int before = taken++;
                        return before == 0 ? std::string(run) : fmt::format("{}-{}", run, before);
                      });
  ending_.emplace(RunEnding{std::move(end), std::move(record), std::move(folder)});
}

int RunView::show() {
  close();
  return show_ending(*ending_, config_, json_);
}

}  // namespace dlobd::app
