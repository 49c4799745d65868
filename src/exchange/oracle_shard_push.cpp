#include "exchange/oracle_shard_push.h"

#include <utility>

namespace dlobd::exchange {

ShardPushOracle::ShardPushOracle(std::vector<compute::ParameterView> views,
                                 const Values& parameters, int workers, ShardPushOptions options,
                                 OptimizerSettings settings)
    : views_(std::move(views)),
      workers_(workers),
      options_(options),
      settings_(std::move(settings)),
      parameters_(parameters),
      momentum_(first_slots(settings_, parameters.size())),
      gathered_(momentum_) {}

void ShardPushOracle::step(std::uint64_t step, const std::vector<Values>& gradients) {
  const float factor = 1.0F / static_cast<float>(workers_);
  Values means(parameters_.size());
  for (int owner = 0; owner < workers_; ++owner) {
    const compute::Range own = shard_of(options_, parameters_.size(), workers_, owner);
    const int first = options_.in_rank_order ? 0 : owner;
    for (std::size_t i = own.begin; i < own.end; ++i) {
      float sum = 0;
      for (int turn = 0; turn < workers_; ++turn) {
        float value = gradients[static_cast<std::size_t>((first + turn) % workers_)][i];
        if (options_.scale_first) value *= factor;
        sum = turn == 0 ? value : sum + value;
      }
      means[i] = options_.scale_first ? sum : sum * factor;
    }
  }
  plain_update(views_, settings_, step, {0, parameters_.size()}, parameters_, means, momentum_);
}

void ShardPushOracle::settle(Settle what) {
  if (what == Settle::parameters_and_optimizer) gathered_ = momentum_;
}

Values ShardPushOracle::momentum(int worker) const {
  Values values = worker == 0 ? gathered_ : first_slots(settings_, parameters_.size());
  const compute::Range own = shard_of(options_, values.size(), workers_, worker);
  for (std::size_t i = own.begin; i < own.end; ++i) values[i] = momentum_[i];
  return values;
}

}  // namespace dlobd::exchange
