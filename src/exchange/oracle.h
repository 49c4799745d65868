// What the exchanges must arrive at, bit for bit, in plain loops on one thread: no transport, no
// coroutine, no kernel of ours. An oracle is fed the gradients of every rank, step by step, and
// holds what each rank must hold. The order of every addition is the protocol's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compute/arena.h"
#include "exchange/allreduce.h"
#include "exchange/cos_shard_push.h"
#include "exchange/optimizer.h"

namespace dlobd::exchange {

using Values = std::vector<float>;

// Caffe's SGD in one plain loop, over `range`.
void plain_sgd(const std::vector<compute::ParameterView>& views, const OptimizerSettings& settings,
               std::uint64_t step, compute::Range range, Values& parameters,
               const Values& gradients, Values& momentum);
// TensorFlow's Adagrad likewise.
void plain_adagrad(const std::vector<compute::ParameterView>& views,
                   const OptimizerSettings& settings, std::uint64_t step, compute::Range range,
                   Values& parameters, const Values& gradients, Values& accumulators);
// Whichever the settings name.
void plain_update(const std::vector<compute::ParameterView>& views,
                  const OptimizerSettings& settings, std::uint64_t step, compute::Range range,
                  Values& parameters, const Values& gradients, Values& slots);
// What every slot starts with.
Values first_slots(const OptimizerSettings& settings, std::size_t elements);

class CosOracle {
 public:
  // Every rank starts with `parameters` and no momentum.
  CosOracle(std::vector<compute::ParameterView> views, const Values& parameters, int world_size,
            CosDefects defects, OptimizerSettings settings,
            compute::WireElement element = compute::WireElement::float32);

  // gradients[r]: of rank r, mean over its own batch. orders[r]: of the peers, in which owner r
  // adds theirs (arrival_order); without it r+1, r+2, ...
  void step(std::uint64_t step, std::vector<Values> gradients,
            const std::vector<std::vector<int>>& orders = {});
  void settle(Settle what);
  // The weights that rank r computes with in the next step.
  [[nodiscard]] Values next_weights() const;

  // What rank r's arena and momentum hold now.
  [[nodiscard]] const Values& parameters(int rank) const;
  [[nodiscard]] const Values& momentum(int rank) const;
  // What each rank owes, by rank.
  [[nodiscard]] const std::vector<Values>& owed() const { return owed_; }

 private:
  void gather_weights();
  void round_what_travels(int rank, Values& gradients);
  void update(std::uint64_t step, int rank, const Values& gradients);

  std::vector<compute::ParameterView> views_;
  int world_size_;
  CosDefects defects_;
  OptimizerSettings settings_;
  std::vector<Values> parameters_;  // by rank
  std::vector<Values> momentum_;
  std::vector<Values> shadow_;  // by rank; what it computes for slices of others (rdma)
  compute::WireElement element_;
  std::vector<Values> owed_;
};

// As the collective's options have it: ring or doubling, float32 or rounded (oracle_wire.h).
class AllReduceOracle {
 public:
  AllReduceOracle(std::vector<compute::ParameterView> views, const Values& parameters,
                  int world_size, AllReduceOptions options, OptimizerSettings settings);

  void step(std::uint64_t step, const std::vector<Values>& gradients);

  // The same on every rank.
  [[nodiscard]] const Values& parameters() const { return parameters_; }
  [[nodiscard]] const Values& momentum() const { return momentum_; }
  // What each rank owes, by rank.
  [[nodiscard]] const std::vector<Values>& owed() const { return owed_; }

  // factor times the sum over all ranks of values[r][range], in the order of either algorithm.
  static Values ring_sum(const std::vector<Values>& values, compute::Range range, float factor);
  static Values doubling_sum(const std::vector<Values>& values, compute::Range range, float factor);

 private:
  Values sum(const std::vector<Values>& gradients, compute::Range range, float factor);

  std::vector<compute::ParameterView> views_;
  int world_size_;
  AllReduceOptions options_;
  OptimizerSettings settings_;
  Values parameters_;
  Values momentum_;
  std::vector<Values> owed_;
};

}  // namespace dlobd::exchange
