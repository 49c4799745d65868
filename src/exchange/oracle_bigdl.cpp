#include "exchange/oracle_bigdl.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "exchange/slices.h"

namespace dlobd::exchange {

float BigDlOracle::cut(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  bits &= 0xffff0000U;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

BigDlOracle::BigDlOracle(std::vector<compute::ParameterView> views, const Values& parameters,
                         int workers, BigDlDefects defects, OptimizerSettings settings)
    : views_(std::move(views)),
      workers_(workers),
      defects_(defects),
      settings_(std::move(settings)),
      master_(parameters),
      momentum_(parameters.size()),
      computed_(static_cast<std::size_t>(workers), parameters),
      gathered_momentum_(parameters.size()) {}

Values BigDlOracle::next_weights() const {
  Values weights = master_;
  for (float& each : weights) each = cut(each);
  return weights;
}

float BigDlOracle::mean(const std::vector<float>& values, std::size_t finished) const {
  float sum = cut(values.front());
  for (std::size_t worker = 1; worker < values.size(); ++worker) {
    sum += cut(values[worker]);
    if (defects_.truncate_each_add) sum = cut(sum);
  }
  return sum * (1.0F / static_cast<float>(finished));
}

void BigDlOracle::step(std::uint64_t step, std::vector<Values> gradients, std::vector<Pass> passes,
                       bool discarded) {
  passes.resize(gradients.size(), Pass::finished);
  const Values weights = next_weights();
  std::size_t finished = gradients.size();
  for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
    if (passes[worker] != Pass::never_begun) computed_[worker] = weights;
    if (passes[worker] == Pass::finished) continue;
    std::fill(gradients[worker].begin(), gradients[worker].end(), 0.0F);
    --finished;
  }
  if (discarded) return;
  momentum_hidden_ = false;
  Values means(master_.size());
  std::vector<float> of_workers(gradients.size());
  for (std::size_t i = 0; i < means.size(); ++i) {
    for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
      of_workers[worker] = gradients[worker][i];
    }
    means[i] = mean(of_workers, finished);
  }
  plain_sgd(views_, settings_, step, {0, master_.size()}, master_, means, momentum_);
}

void BigDlOracle::settle(Settle what) {
  computed_.front() = master_;
  if (what != Settle::parameters_and_optimizer) return;
  if (defects_.momentum_not_saved) {
    momentum_hidden_ = true;
  } else {
    gathered_momentum_ = momentum_;
  }
}

Values BigDlOracle::parameters(int worker) const {
  return computed_.at(static_cast<std::size_t>(worker));
}

// A slice of the own, and on worker 0 what the last snapshot has gathered.
Values BigDlOracle::momentum(int worker) const {
  if (worker == 0 && momentum_hidden_) return Values(momentum_.size());
  Values values = worker == 0 ? gathered_momentum_ : Values(momentum_.size());
  const compute::Range own = front_loaded_slice(values.size(), workers_, worker);
  for (std::size_t i = own.begin; i < own.end; ++i) values[i] = momentum_[i];
  return values;
}

}  // namespace dlobd::exchange
