#include "training/step_loop.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "training/checkpoint.h"
#include "training/identity.h"

namespace dlobd::training {

using base::ErrorKind;
using base::Result;
using base::Task;
using metrics::Phase;

namespace {

// A profile computes nothing: it has no loss and no accuracy to report.
bool is_timed_only(const Config& config) {
  return config.processor.kind == compute::Processor::Kind::profile;
}

}  // namespace

std::uint64_t StepLoop::last_step() const {
  const Config& config = parts_.config;
  if (config.steps) return *config.steps;
  return config.epochs.value_or(1) * parts_.steps_per_epoch;
}

bool StepLoop::pause_is_due() const {
  if (at_.step == last_step()) return true;
  const std::uint64_t every = parts_.config.evaluate_every;
  return every > 0 ? at_.step % every == 0 : at_.batch == 0;
}

Task<Result<End>> StepLoop::run() {
  auto end = co_await run_steps();
  // What a pass uses does not go while it runs, however the steps have ended.
  co_await pass_.ended();
  co_return end;
}

Task<Result<End>> StepLoop::run_steps() {
  auto started = parts_.train.start_epoch(at_.epoch, at_.batch);
  DLOBD_CO_CHECK(started);
  bool reached = false;
  while (!reached && at_.step < last_step()) {
    auto may_begin = co_await parts_.member.may_begin(at_.step);
    DLOBD_CO_CHECK(may_begin);
    if (!*may_begin) {
      std::string folder = parts_.config.checkpoints();
      auto saved = co_await snapshot(folder);
      DLOBD_CO_CHECK(saved);
      co_return End::interrupted;
    }
    auto stepped = co_await step();
    DLOBD_CO_CHECK(stepped);
    if (at_.batch == parts_.steps_per_epoch) {
      at_.batch = 0;
      ++at_.epoch;
      started = parts_.train.start_epoch(at_.epoch, 0);
      DLOBD_CO_CHECK(started);
    }
    if (pause_is_due()) {
      auto paused = co_await pause();
      DLOBD_CO_CHECK(paused);
      reached = *paused;
    }
  }
  const bool missed = parts_.config.until_accuracy.has_value() && !reached;
  co_return missed ? End::target_missed : End::finished;
}

Task<Result<void>> StepLoop::step() {
  auto& phases = parts_.phases;
  phases.begin_step();
  settled_.reset();

  batches::Batch batch;
  {
    const auto scope = phases.enter(Phase::feed);
    auto got = co_await next_batch();
    DLOBD_CO_CHECK(got);
    batch = std::move(**got);
  }
  {
    const auto scope = phases.enter(Phase::exchange);
    auto begun = co_await parts_.exchange.begin_step(at_.step);
    DLOBD_CO_CHECK(begun);
  }
  auto passed = co_await pass(std::move(batch));
  DLOBD_CO_CHECK(passed);
  compute::StepResult computed;
  if (*passed) {
    computed = **passed;
  } else {
    parts_.exchange.cut_off();
  }
  if (!std::isfinite(computed.loss)) {
    co_return base::fail(ErrorKind::diverged,
                         fmt::format("the loss is not a number any more; a smaller --learning-rate "
                                     "may help: rank {}, step {}, loss {}",
                                     parts_.rank, at_.step, computed.loss),
                         parts_.rank);
  }
  exchange::StepOutcome outcome;
  {
    const auto scope = phases.enter(Phase::exchange);
    auto finished = co_await parts_.exchange.finish_step();
    DLOBD_CO_CHECK(finished);
    outcome = *finished;
  }
  if (outcome == exchange::StepOutcome::gradients_averaged) {
    const auto scope = phases.enter(Phase::update);
    const compute::Range all{0, parts_.replica.arena().size()};
    base::UniqueFunction<void()> update = [this, all] { parts_.optimizer.update(at_.step, all); };
    co_await parts_.worker.run(std::move(update));
  }

  metrics::StepRow row;
  row.rank = parts_.rank;
  row.step = at_.step;
  row.epoch = at_.epoch;
  row.samples = computed.samples;
  row.loss = is_timed_only(parts_.config) || !*passed ? std::nan("") : computed.loss;
  row.staleness = parts_.exchange.staleness();
  row.totals = phases.end_step();
  row.totals.start -= parts_.clock_start;
  parts_.reporter.add(row);

  samples_seen_ += computed.samples;
  ++at_.step;
  ++at_.batch;
  co_return Result<void>();
}

Task<Result<std::optional<compute::StepResult>>> StepLoop::pass(batches::Batch batch) {
  const auto scope = parts_.phases.enter(Phase::compute);
  const auto deadline = parts_.exchange.pass_deadline();
  auto rest = co_await at_rest(deadline);
  DLOBD_CO_CHECK(rest);
  std::optional<compute::StepResult> computed;
  if (!*rest || (deadline && parts_.loop.now() >= *deadline)) co_return computed;
  {
    const auto exchanging = parts_.phases.enter(Phase::exchange);
    parts_.exchange.begin_pass();
  }
  batch_ = std::move(batch);
  if (deadline) {
    pass_.start(forward_backward());
  } else {
    co_await forward_backward();
  }
  rest = co_await at_rest(deadline);
  DLOBD_CO_CHECK(rest);
  if (*rest) computed = *computed_;
  co_return computed;
}

Task<void> StepLoop::forward_backward() {
  computed_ = co_await parts_.replica.forward_backward(batch_, parts_.exchange);
}

Task<Result<bool>> StepLoop::at_rest(std::optional<base::Time> deadline) {
  const bool ended = co_await pass_.ended(deadline);
  if (ended && !computed_) co_return base::fail(computed_.error());
  co_return ended;
}

Task<Result<std::optional<batches::Batch>>> StepLoop::next_batch() {
  Result<std::optional<batches::Batch>> batch;
  base::UniqueFunction<void()> take = [this, &batch] { batch = parts_.train.next(); };
  co_await parts_.worker.run(std::move(take));
  if (batch && !*batch) {
    co_return base::fail(
        ErrorKind::corrupt_data,
        fmt::format("the feed ended before the epoch did: rank {}, epoch {}, batch {} of {}",
                    parts_.rank, at_.epoch, at_.batch, parts_.steps_per_epoch));
  }
  co_return batch;
}

Task<Result<bool>> StepLoop::pause() {
  const bool kept = !parts_.config.checkpoint_folder.empty();
  const auto whole =
      kept ? exchange::Settle::parameters_and_optimizer : exchange::Settle::parameters;
  auto reached = co_await evaluate(whole);
  DLOBD_CO_CHECK(reached);
  if (kept) {
    auto saved = co_await snapshot(parts_.config.checkpoint_folder);
    DLOBD_CO_CHECK(saved);
  }
  co_return *reached;
}

Task<Result<void>> StepLoop::settle(exchange::Settle what) {
  if (settled_ >= what) co_return Result<void>();
  auto rest = co_await at_rest();
  DLOBD_CO_CHECK(rest);
  auto settled = co_await parts_.exchange.settle(what);
  DLOBD_CO_CHECK(settled);
  settled_ = what;
  co_return Result<void>();
}

// Rank 0 evaluates the whole test set, as CaffeOnSpark's executors leave it to their first device;
// the others wait at the gather, so that the next step begins together and carries none of it.
Task<Result<bool>> StepLoop::evaluate(exchange::Settle whole) {
  const base::Time from = parts_.loop.now();
  parts_.member.set_phase("evaluate");
  auto settled = co_await settle(whole);
  DLOBD_CO_CHECK(settled);

  cluster::Blob verdict;
  if (parts_.rank == 0) {
    auto row = co_await evaluate_here();
    DLOBD_CO_CHECK(row);
    if (!is_timed_only(parts_.config)) parts_.reporter.add(metrics::Report(*row));
    const auto& target = parts_.config.until_accuracy;
    verdict.push_back(static_cast<std::byte>(target && row->accuracy >= *target));
  }
  auto verdicts = co_await parts_.member.all_gather(std::move(verdict), "an evaluation");
  DLOBD_CO_CHECK(verdicts);
  parts_.member.set_phase("train");
  report_apart(metrics::ApartKind::evaluation, from);
  const auto& of_rank_0 = verdicts->front();
  co_return !of_rank_0.empty() && of_rank_0.front() != std::byte{0};
}

Task<Result<metrics::EvaluationRow>> StepLoop::evaluate_here() {
  auto started = parts_.test.start_epoch(0, 0);
  DLOBD_CO_CHECK(started);
  compute::Evaluation total;
  while (true) {
    auto batch = parts_.test.next();
    DLOBD_CO_CHECK(batch);
    if (!*batch) break;
    auto part = co_await parts_.replica.evaluate(**batch);
    DLOBD_CO_CHECK(part);
    total.loss_sum += part->loss_sum;
    total.correct += part->correct;
    total.samples += part->samples;
  }
  metrics::EvaluationRow row;
  row.step = at_.step;
  row.epoch = at_.epoch;
  row.time_ns = (parts_.loop.now() - parts_.clock_start).count();
  row.samples = at_.step * parts_.config.batch.global;
  const auto samples = static_cast<double>(total.samples);
  row.loss = total.loss_sum / samples;
  row.accuracy = static_cast<double>(total.correct) / samples;
  co_return row;
}

Task<Result<void>> StepLoop::snapshot(const std::string& folder) {
  const base::Time from = parts_.loop.now();
  parts_.member.set_phase("snapshot");
  auto settled = co_await settle(exchange::Settle::parameters_and_optimizer);
  DLOBD_CO_CHECK(settled);

  const std::string generator = parts_.replica.generator_state();
  const auto bytes = std::as_bytes(std::span<const char>(generator));
  cluster::Blob mine(bytes.begin(), bytes.end());
  auto generators = co_await parts_.member.all_gather(std::move(mine), "a snapshot");
  DLOBD_CO_CHECK(generators);
  // The servers of a design have none.
  generators->resize(static_cast<std::size_t>(parts_.config.ranks));

  Result<void> saved;
  if (parts_.rank == 0) {
    Checkpoint checkpoint;
    checkpoint.run = identity_of(parts_.config);
    checkpoint.step = at_.step;
    checkpoint.epoch = at_.epoch;
    checkpoint.batch = at_.batch;
    const auto& arena = parts_.replica.arena();
    checkpoint.parameters.assign(arena.parameters().begin(), arena.parameters().end());
    checkpoint.state.assign(arena.state().begin(), arena.state().end());
    const auto momentum = parts_.optimizer.slots();
    checkpoint.momentum.assign(momentum.begin(), momentum.end());
    const auto residuals = parts_.exchange.residuals();
    checkpoint.residuals.assign(residuals.begin(), residuals.end());
    for (const auto& state : *generators) {
      checkpoint.generators.emplace_back(reinterpret_cast<const char*>(state.data()), state.size());
    }
    const std::string path = checkpoint_path(folder, parts_.config, at_.step);
    base::UniqueFunction<void()> write = [&] { saved = save(parts_.store, path, checkpoint); };
    co_await parts_.worker.run(std::move(write));
    DLOBD_CO_CHECK(saved);
  }
  // All wait for the file, so that none goes on from a checkpoint that is not there.
  auto barrier = co_await parts_.member.all_gather(cluster::Blob(), "a saved snapshot");
  DLOBD_CO_CHECK(barrier);
  parts_.member.set_phase("train");
  report_apart(metrics::ApartKind::snapshot, from);
  co_return Result<void>();
}

void StepLoop::report_apart(metrics::ApartKind kind, base::Time from) {
  metrics::ApartRow row;
  row.rank = parts_.rank;
  row.kind = kind;
  row.start = from - parts_.clock_start;
  row.duration = parts_.loop.now() - from;
  parts_.reporter.add(metrics::Report(row));
}

}  // namespace dlobd::training
