// What an overlapped sharded push must arrive at, bit for bit, in plain loops on one thread, as
// oracle.h has it for the others.
#pragma once

#include <cstdint>
#include <vector>

#include "exchange/exchange.h"
#include "exchange/oracle.h"
#include "exchange/shard_pieces.h"

namespace dlobd::exchange {

class ShardPushOracle {
 public:
  // Every worker starts with `parameters` and untouched slots of the optimizer.
  ShardPushOracle(std::vector<compute::ParameterView> views, const Values& parameters, int workers,
                  ShardPushOptions options, OptimizerSettings settings);

  // gradients[r]: of worker r, mean over its own batch.
  void step(std::uint64_t step, const std::vector<Values>& gradients);
  void settle(Settle what);

  // What all workers compute with in the next step.
  [[nodiscard]] const Values& parameters() const { return parameters_; }
  // What worker r's optimizer holds now.
  [[nodiscard]] Values momentum(int worker) const;

 private:
  std::vector<compute::ParameterView> views_;
  int workers_;
  ShardPushOptions options_;
  OptimizerSettings settings_;
  Values parameters_;
  Values momentum_;  // each slice as its owner holds it
  Values gathered_;  // on worker 0, by the last snapshot
};

}  // namespace dlobd::exchange
