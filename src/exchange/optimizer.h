// The optimizer, wherever a protocol places it: it updates any range of an arena, on any rank, and
// keeps one slot per parameter in a buffer of the arena's size (in a design where each rank updates
// its own slice, only that slice of the buffer means anything). SGD's slot is its momentum,
// Adagrad's the sum of squared gradients, which starts at 0.1 as TensorFlow's does.
// Rate policies are Caffe's: fixed, step, multistep, inv. Steps count from 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "compute/arena.h"
#include "compute/kernels.h"

namespace dlobd::exchange {

struct LearningRate {
  enum class Policy { fixed, step, multistep, inv };

  Policy policy = Policy::fixed;
  double base = 0.01;
  double gamma = 0.1;                     // step, multistep: factor; inv: gamma
  double power = 0.75;                    // inv
  std::uint64_t step_size = 1;            // step
  std::vector<std::uint64_t> boundaries;  // multistep: rising steps

  // fixed: base.  step: base * gamma^floor(t/step_size).  multistep: base * gamma^(boundaries <=
  // t). inv: base * (1 + gamma t)^-power
  [[nodiscard]] double at(std::uint64_t step) const;

  // "fixed" | "step:gamma=0.1,size=1000" | "multistep:gamma=0.1,at=1000/2000" |
  // "inv:gamma=1e-4,power=0.75"
  static base::Result<LearningRate> parse(std::string_view policy, double base);
  [[nodiscard]] std::string text() const;  // parse() reads it back
};

enum class OptimizerKind { sgd, adagrad };
std::string_view name(OptimizerKind kind);
// invalid_argument with the nearest name.
base::Result<OptimizerKind> parse_optimizer(std::string_view word);

inline constexpr float kAdagradStart = 0.1F;  // of every accumulator

struct OptimizerSettings {
  OptimizerKind kind = OptimizerKind::sgd;
  LearningRate learning_rate;
  double momentum = 0.9;       // of SGD
  double weight_decay = 5e-4;  // of SGD
};

class Optimizer {
 public:
  Optimizer(OptimizerSettings settings, compute::ParameterArena& arena,
            const compute::Kernels& kernels);
  // Updates arena.parameters() in `range` from arena.gradients(), view by view.
  void update(std::uint64_t step, compute::Range range);
  // The same from gradients that lie elsewhere: those of the range alone.
  void update(std::uint64_t step, compute::Range range, std::span<const float> gradients);
  // The same on parameters that lie elsewhere: those of the range alone, too.
  void update(std::uint64_t step, compute::Range range, std::span<float> parameters,
              std::span<const float> gradients);
  // The slots: momentum or accumulators.
  [[nodiscard]] std::span<float> slots() { return slots_.parameters(); }
  [[nodiscard]] const OptimizerSettings& settings() const { return settings_; }

 private:
  OptimizerSettings settings_;
  compute::ParameterArena& arena_;
  const compute::Kernels& kernels_;
  compute::ParameterArena slots_;  // its parameters() are the buffer; registrable
};

}  // namespace dlobd::exchange
