// What tf_ring must arrive at, bit for bit, in plain loops (see oracle.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exchange/oracle.h"
#include "exchange/tf_ring.h"

namespace dlobd::exchange {

class TfRingOracle {
 public:
  TfRingOracle(std::vector<compute::ParameterView> views, const Values& parameters, int world_size,
               TfRingOptions options, OptimizerSettings settings);

  // gradients[r]: of rank r.
  void step(std::uint64_t step, const std::vector<Values>& gradients);

  // The same on every rank.
  [[nodiscard]] const Values& parameters() const { return parameters_; }
  [[nodiscard]] const Values& momentum() const { return momentum_; }

 private:
  // The sum of element i, from rank `first` on.
  float round_the_ring(const std::vector<Values>& gradients, std::size_t i, int first);

  std::vector<compute::ParameterView> views_;
  int world_size_;
  TfRingOptions options_;
  OptimizerSettings settings_;
  Values parameters_;
  Values momentum_;
  std::vector<Values> owed_;  // by rank
};

}  // namespace dlobd::exchange
