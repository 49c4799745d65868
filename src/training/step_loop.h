// The step loop of one rank: batches, computation and exchange joined, with evaluation and
// snapshots in between, until the run's end, its target, or an agreed stop.
//
//   a step      feed -> begin_step -> forward and backward -> finish_step -> the local optimizer,
//               if the exchange averaged gradients; its phases add up to its wall time
//   cut off     a pass that the exchange gives a deadline and that misses it runs on beside what
//               follows: a later step's pass, settling and the end wait for it
//   in between  evaluation and snapshot, on whole parameters (Exchange::settle): outside the steps,
//               so outside their phases, but never outside the clock
//
// Errors: those of its parts; diverged when the loss is no finite number (says step and rank).
// Belongs to the loop's thread; the same code runs on both clocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/loop.h"
#include "base/result.h"
#include "base/waiters.h"
#include "batches/source.h"
#include "cluster/membership.h"
#include "compute/replica.h"
#include "compute/worker.h"
#include "exchange/exchange.h"
#include "metrics/phases.h"
#include "metrics/report.h"
#include "storage/store.h"
#include "training/config.h"

namespace dlobd::training {

// How a run that did not fail has ended.
enum class End { finished, interrupted, target_missed };

// Where training stands: `step` steps are done; next is batch `batch` of epoch `epoch`.
struct Position {
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::uint64_t batch = 0;
};

class StepLoop {
 public:
  // All outlive the loop.
  struct Parts {
    base::Loop& loop;
    const Config& config;
    int rank;
    compute::Worker& worker;
    compute::Replica& replica;
    batches::Source& train;
    batches::Source& test;  // used on rank 0
    exchange::Exchange& exchange;
    exchange::Optimizer& optimizer;
    cluster::Member& member;
    metrics::Phases& phases;
    metrics::Reporter& reporter;
    storage::WritableStore& store;
    base::Time clock_start;         // of training: rows count from it
    std::uint64_t steps_per_epoch;  // as agreed
  };

  StepLoop(Parts parts, Position from) : parts_(parts), at_(from), pass_(parts.loop) {}

  base::Task<base::Result<End>> run();

  [[nodiscard]] const Position& position() const { return at_; }
  // What this rank has gone through in passes that count, resumed part not included.
  [[nodiscard]] std::uint64_t samples_seen() const { return samples_seen_; }

 private:
  base::Task<base::Result<End>> run_steps();
  base::Task<base::Result<void>> step();
  // Nothing: the pass was cut off.
  base::Task<base::Result<std::optional<compute::StepResult>>> pass(batches::Batch batch);
  base::Task<void> forward_backward();
  // Waits for the pass that runs, until the deadline: whether none does. The error of one that has
  // failed.
  base::Task<base::Result<bool>> at_rest(std::optional<base::Time> deadline = std::nullopt);
  base::Task<base::Result<std::optional<batches::Batch>>> next_batch();
  // Evaluation and snapshot, where they are due. True: the target is reached.
  base::Task<base::Result<bool>> pause();
  // `whole`: what is settled for it; more than it needs where a snapshot follows.
  base::Task<base::Result<bool>> evaluate(exchange::Settle whole);
  base::Task<base::Result<metrics::EvaluationRow>> evaluate_here();
  base::Task<base::Result<void>> snapshot(const std::string& folder);
  // Does nothing where the last step has been settled so far already. Collective.
  base::Task<base::Result<void>> settle(exchange::Settle what);
  void report_apart(metrics::ApartKind kind, base::Time from);
  [[nodiscard]] std::uint64_t last_step() const;
  [[nodiscard]] bool pause_is_due() const;

  Parts parts_;
  Position at_;
  std::uint64_t samples_seen_ = 0;
  std::optional<exchange::Settle> settled_;  // of the weights after the last step
  base::Background pass_;
  batches::Batch batch_;                        // of the last pass that has begun
  base::Result<compute::StepResult> computed_;  // by it
};

}  // namespace dlobd::training
