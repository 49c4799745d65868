// A model on one device. The arena holds its parameters and gradients in host memory; a replica on
// a GPU copies to and from it. forward_backward() reads the parameters as they are when it is
// called, overwrites every gradient (mean over the batch), and tells the sink of each as it becomes
// ready, in backward order, on the loop. One call at a time. Errors: diverged never (the caller
// judges the loss), invalid_argument for a batch of another shape or with labels out of range.
//
// Threads: called on the loop; computes on its Worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/loop.h"
#include "base/result.h"
#include "batches/source.h"
#include "compute/arena.h"

namespace dlobd::compute {

struct StepResult {
  double loss = 0;  // mean over the batch
  std::size_t samples = 0;
  base::Duration compute = base::Duration::zero();  // busy computing, on the worker
};

struct Evaluation {
  double loss_sum = 0;  // over the samples
  std::uint64_t correct = 0;
  std::uint64_t samples = 0;
};

class GradientSink {
 public:
  virtual ~GradientSink() = default;
  // On the loop; never blocks. `view` indexes arena().views(); its gradient is complete in the
  // arena.
  virtual void gradient_ready(std::size_t view) = 0;
};

class Replica {
 public:
  virtual ~Replica() = default;
  virtual ParameterArena& arena() = 0;
  // Fills the parameters as the model defines it (xavier, ...): the same for the same seed.
  virtual void initialize(std::uint64_t seed) = 0;
  virtual base::Task<base::Result<StepResult>> forward_backward(const batches::Batch& batch,
                                                                GradientSink& sink) = 0;
  virtual base::Task<base::Result<Evaluation>> evaluate(const batches::Batch& batch) = 0;
  // The state of its random generator (dropout), for checkpoints. Empty where it has none.
  [[nodiscard]] virtual std::string generator_state() const = 0;
  virtual base::Result<void> set_generator_state(const std::string& state) = 0;
};

}  // namespace dlobd::compute
