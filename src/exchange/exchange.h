// Gradients <-> peers: what a rank with a replica does around its forward and backward pass. One
// file per protocol. The step loop calls, for each step:
//
//   begin_step(step)         before the forward pass (CaffeOnSpark fetches weights here)
//   begin_pass()             at once before it
//   gradient_ready(view)     in backward order, during the backward pass; may start communication
//   finish_step()            after it; says who updates the parameters
//
// and, where it needs the whole model (evaluation, snapshot, end), settle() on every worker, and
// leave() once after the last. Of the ranks that hold no replica, see service.h.
// A design that cuts stragglers off gives a pass a deadline. One that misses it runs on beside the
// rest of its step, which ends without it (cut_off(), finish_step()), and beside the steps that
// follow, until it is over: only then another begins (begin_pass()).
// The constructor registers the regions of the protocol; connect the endpoint after it.
// Errors: those of the endpoint. Belongs to the loop's thread. The same code runs on both clocks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "compute/arena.h"
#include "compute/kernels.h"
#include "compute/replica.h"
#include "exchange/layout.h"
#include "exchange/optimizer.h"
#include "metrics/phases.h"
#include "transport/endpoint.h"

namespace dlobd::exchange {

enum class StepOutcome {
  gradients_averaged,   // arena.gradients() holds the mean: the caller runs the optimizer
  parameters_replaced,  // the exchange has run it, where its design places it
};

enum class Settle {
  parameters,                // whole parameters on rank 0, in some designs on every worker
  parameters_and_optimizer,  // and the optimizer's state on rank 0: for a snapshot
};

// What an exchange works with. All outlive it.
struct Context {
  transport::Endpoint& endpoint;
  compute::ParameterArena& arena;
  Optimizer& optimizer;
  const compute::Kernels& kernels;
  metrics::Phases& phases;
  Layout layout;  // of the job; its world size is the endpoint's
};

class Exchange : public compute::GradientSink {
 public:
  virtual base::Task<base::Result<void>> begin_step(std::uint64_t step) = 0;
  // Of the step that has begun, when its pass is cut off. Nothing: it is waited for.
  [[nodiscard]] virtual std::optional<base::Time> pass_deadline() const { return std::nullopt; }
  // The pass of the step begins; none of an earlier step runs.
  virtual void begin_pass() {}
  // The deadline has passed before the pass was over: it still runs, or has never begun.
  // finish_step() does without its gradients and touches nothing in the arena.
  virtual void cut_off() {}
  virtual base::Task<base::Result<StepOutcome>> finish_step() = 0;
  // Collective, and no pass runs. What it moves is counted as Traffic::apart. The ranks meet again
  // before one of them begins another step, so that what the settling was for finds the arena at
  // rest.
  virtual base::Task<base::Result<void>> settle(Settle what) = 0;
  // After the last step: lets the services of the design go. Nothing to say where there are none.
  virtual base::Task<base::Result<void>> leave() { co_return base::Result<void>(); }
  // Of the step that finish_step() has ended: updates by others since its weights were read.
  [[nodiscard]] virtual std::uint64_t staleness() const { return 0; }
  // Of a design that rounds with error feedback (residuals.h), what this rank owes, an element for
  // each of the arena's; on rank 0, after settle(parameters_and_optimizer), those of ranks 1, 2,
  // ... behind it. Part of the trajectory: a resumed rank starts with its own. Otherwise empty.
  [[nodiscard]] virtual std::span<float> residuals() const { return {}; }
  // At the end: what the run's record should warn of.
  [[nodiscard]] virtual std::vector<std::string> remarks() const { return {}; }
};

}  // namespace dlobd::exchange
