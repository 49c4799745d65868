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

  // gradients[r]: of worker r, mean over its own batch.
  void step(std::uint64_t step, const std::vector<Values>& gradients);
  void settle(Settle what);
  // The weights that all workers compute with in the next step.
  [[nodiscard]] Values next_weights() const;

  // What worker r's arena and momentum hold now.
  [[nodiscard]] Values parameters(int worker) const;
  [[nodiscard]] Values momentum(int worker) const;

  // The upper 16 bits, as a float.
  static float cut(float value);
  // The mean of one element over the workers, as its owner takes it.
  [[nodiscard]] float mean(const std::vector<float>& values) const;

 private:
  std::vector<compute::ParameterView> views_;
  int workers_;
  BigDlDefects defects_;
  OptimizerSettings settings_;
  Values master_;                 // float32, each slice as its owner holds it
  Values momentum_;               // likewise
  std::vector<Values> computed_;  // by worker: its arena outside its own slice
  bool momentum_hidden_ = false;  // on worker 0, since the last snapshot
  Values gathered_momentum_;      // on worker 0, by the last snapshot
};

}  // namespace dlobd::exchange
