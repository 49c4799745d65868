// What BigDL's exchange must arrive at, bit for bit, in plain loops on one thread, as oracle.h has
// it for the others. The order of every addition and every cut to 16 bits is the protocol's.
#pragma once

#include <cstdint>
#include <vector>

#include "exchange/bigdl_blocks.h"
#include "exchange/oracle.h"

namespace dlobd::exchange {

class BigDlOracle {
 public:
  // Every worker starts with `parameters` and no momentum.
  BigDlOracle(std::vector<compute::ParameterView> views, const Values& parameters, int workers,
              BigDlDefects defects, OptimizerSettings settings);

  // What has become of a worker's pass in a step; of one that was cut off, whether it had begun.
  enum class Pass { finished, cut_off, never_begun };
  // gradients[r]: of worker r, mean over its own batch. Where passes were cut off: passes[r], and
  // whether the update was discarded.
  void step(std::uint64_t step, std::vector<Values> gradients, std::vector<Pass> passes = {},
            bool discarded = false);
  void settle(Settle what);
  // The weights that all workers compute with in the next step.
  [[nodiscard]] Values next_weights() const;

  // What worker r's arena and momentum hold now.
  [[nodiscard]] Values parameters(int worker) const;
  [[nodiscard]] Values momentum(int worker) const;

  // The upper 16 bits, as a float.
  static float cut(float value);
  // The mean of one element over the workers that have finished, as its owner takes it; the
  // values of the others are 0.
  [[nodiscard]] float mean(const std::vector<float>& values, std::size_t finished) const;

 private:
  std::vector<compute::ParameterView> views_;
  int workers_;
  BigDlDefects defects_;
  OptimizerSettings settings_;
  Values master_;                 // float32, each slice as its owner holds it
  Values momentum_;               // likewise
  std::vector<Values> computed_;  // by worker: its arena
  bool momentum_hidden_ = false;  // on worker 0, since the last snapshot
  Values gathered_momentum_;      // on worker 0, by the last snapshot
};

}  // namespace dlobd::exchange
