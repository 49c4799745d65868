#include "exchange/oracle.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "exchange/oracle_wire.h"
#include "exchange/recursive_doubling.h"
#include "exchange/slices.h"

namespace dlobd::exchange {
namespace {

std::size_t index(int rank) {
  return static_cast<std::size_t>(rank);
}

void copy(const Values& from, Values& to, compute::Range range) {
  for (std::size_t i = range.begin; i < range.end; ++i) to[i] = from[i];
}

}  // namespace

void plain_sgd(const std::vector<compute::ParameterView>& views, const OptimizerSettings& settings,
               std::uint64_t step, compute::Range range, Values& parameters,
               const Values& gradients, Values& momentum) {
  const double base_rate = settings.learning_rate.at(step);
  const auto mu = static_cast<float>(settings.momentum);
  for (const compute::ParameterView& view : views) {
    const auto rate = static_cast<float>(base_rate * view.lr_multiplier);
    const auto decay = static_cast<float>(settings.weight_decay * view.decay_multiplier);
    for (std::size_t i = view.offset; i < view.offset + view.size; ++i) {
      if (i < range.begin || i >= range.end) continue;
      momentum[i] = mu * momentum[i] + rate * (gradients[i] + decay * parameters[i]);
      parameters[i] -= momentum[i];
    }
  }
}

void plain_adagrad(const std::vector<compute::ParameterView>& views,
                   const OptimizerSettings& settings, std::uint64_t step, compute::Range range,
                   Values& parameters, const Values& gradients, Values& accumulators) {
  const double base_rate = settings.learning_rate.at(step);
  for (const compute::ParameterView& view : views) {
    const auto rate = static_cast<float>(base_rate * view.lr_multiplier);
    for (std::size_t i = view.offset; i < view.offset + view.size; ++i) {
      if (i < range.begin || i >= range.end) continue;
      accumulators[i] += gradients[i] * gradients[i];
      parameters[i] -= rate * gradients[i] / std::sqrt(accumulators[i]);
    }
  }
}

void plain_update(const std::vector<compute::ParameterView>& views,
                  const OptimizerSettings& settings, std::uint64_t step, compute::Range range,
                  Values& parameters, const Values& gradients, Values& slots) {
  if (settings.kind == OptimizerKind::adagrad) {
    plain_adagrad(views, settings, step, range, parameters, gradients, slots);
  } else {
    plain_sgd(views, settings, step, range, parameters, gradients, slots);
  }
}

Values first_slots(const OptimizerSettings& settings, std::size_t elements) {
  const float first = settings.kind == OptimizerKind::adagrad ? kAdagradStart : 0.0F;
  return Values(elements, first);
}

CosOracle::CosOracle(std::vector<compute::ParameterView> views, const Values& parameters,
                     int world_size, CosDefects defects, OptimizerSettings settings,
                     compute::WireElement element)
    : views_(std::move(views)),
      world_size_(world_size),
      defects_(defects),
      settings_(std::move(settings)),
      parameters_(index(world_size), parameters),
      momentum_(index(world_size), first_slots(settings_, parameters.size())),
      shadow_(index(world_size), Values(parameters.size())),
      element_(element),
      owed_(index(world_size), Values(parameters.size())) {}

Values CosOracle::next_weights() const {
  Values whole(parameters_.front().size());
  for (int owner = 0; owner < world_size_; ++owner) {
    copy(parameters_[index(owner)], whole, slice(whole.size(), world_size_, owner));
  }
  return whole;
}

void CosOracle::gather_weights() {
  const Values whole = next_weights();
  for (Values& each : parameters_) each = whole;
}

void CosOracle::step(std::uint64_t step, std::vector<Values> gradients,
                     const std::vector<std::vector<int>>& orders) {
  gather_weights();
  const std::size_t size = parameters_.front().size();
  const float factor = 1.0F / static_cast<float>(world_size_);
  for (Values& each : gradients) {
    for (float& value : each) value *= factor;
  }
  for (int rank = 0; rank < world_size_; ++rank) round_what_travels(rank, gradients[index(rank)]);
  std::vector<Values> summed = gradients;
  for (int owner = 0; owner < world_size_; ++owner) {
    const compute::Range own = slice(size, world_size_, owner);
    for (int i = 1; i < world_size_; ++i) {
      const int peer =
          orders.empty() ? (owner + i) % world_size_ : orders.at(index(owner)).at(index(i) - 1);
      const Values& theirs = gradients[index(peer)];
      for (std::size_t at = own.begin; at < own.end; ++at) summed[index(owner)][at] += theirs[at];
    }
  }
  for (int rank = 0; rank < world_size_; ++rank) update(step, rank, summed[index(rank)]);
}

void CosOracle::round_what_travels(int rank, Values& gradients) {
  if (element_ == compute::WireElement::float32) return;
  const compute::Range own = slice(gradients.size(), world_size_, rank);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (i >= own.begin && i < own.end) continue;
    float& owed = owed_[index(rank)][i];
    const float given = gradients[i] + owed;
    gradients[i] = plain_rounded(element_, given);
    owed = given - gradients[i];
  }
}

void CosOracle::update(std::uint64_t step, int rank, const Values& gradients) {
  const std::size_t size = gradients.size();
  const compute::Range own = slice(size, world_size_, rank);
  Values& others = (defects_.rdma ? shadow_ : parameters_)[index(rank)];
  Values& momentum = momentum_[index(rank)];
  plain_update(views_, settings_, step, own, parameters_[index(rank)], gradients, momentum);
  if (!defects_.optimizer_full) return;
  for (const compute::Range range : {compute::Range{0, own.begin}, compute::Range{own.end, size}}) {
    plain_update(views_, settings_, step, range, others, gradients, momentum);
  }
}

void CosOracle::settle(Settle what) {
  if (!defects_.snapshot_ungathered) gather_weights();
  if (what != Settle::parameters_and_optimizer || defects_.momentum_own_slice) return;
  for (int owner = 1; owner < world_size_; ++owner) {
    copy(momentum_[index(owner)], momentum_[0], slice(momentum_[0].size(), world_size_, owner));
  }
}

const Values& CosOracle::parameters(int rank) const {
  return parameters_.at(index(rank));
}
const Values& CosOracle::momentum(int rank) const {
  return momentum_.at(index(rank));
}

AllReduceOracle::AllReduceOracle(std::vector<compute::ParameterView> views,
                                 const Values& parameters, int world_size, AllReduceOptions options,
                                 OptimizerSettings settings)
    : views_(std::move(views)),
      world_size_(world_size),
      options_(options),
      settings_(std::move(settings)),
      parameters_(parameters),
      momentum_(first_slots(settings_, parameters.size())),
      owed_(index(world_size), Values(parameters.size())) {}

Values AllReduceOracle::ring_sum(const std::vector<Values>& values, compute::Range range,
                                 float factor) {
  const int world_size = static_cast<int>(values.size());
  Values sum(range.size());
  for (int chunk = 0; chunk < world_size; ++chunk) {
    const compute::Range part = slice(range.size(), world_size, chunk);
    for (std::size_t i = part.begin; i < part.end; ++i) {
      sum[i] = values[index(chunk)][range.begin + i];
      for (int hop = 1; hop < world_size; ++hop) {
        sum[i] += values[index((chunk + hop) % world_size)][range.begin + i];
      }
      sum[i] *= factor;
    }
  }
  return sum;
}

Values AllReduceOracle::doubling_sum(const std::vector<Values>& values, compute::Range range,
                                     float factor) {
  const Doubling pairs = doubling(static_cast<int>(values.size()));
  Values sum(range.size());
  for (std::size_t i = 0; i < range.size(); ++i) {
    Values held(index(pairs.ranks));
    for (int rank = 0; rank < pairs.ranks; ++rank) {
      held[index(rank)] = values[index(rank)][range.begin + i];
      if (rank < pairs.extras) {
        held[index(rank)] += values[index(rank + pairs.ranks)][range.begin + i];
      }
    }
    for (int distance = 1; distance < pairs.ranks; distance *= 2) {
      const Values before = held;
      for (int rank = 0; rank < pairs.ranks; ++rank) {
        held[index(rank)] = before[index(rank)] + before[index(rank ^ distance)];
      }
    }
    sum[i] = held[0] * factor;
  }
  return sum;
}

Values AllReduceOracle::sum(const std::vector<Values>& gradients, compute::Range range,
                            float factor) {
  const compute::WireElement element = options_.collective.element;
  const bool doubles =
      chosen(options_.collective, world_size_, range.size()) == Algorithm::recursive_doubling;
  if (element == compute::WireElement::float32 || world_size_ == 1) {
    return doubles ? doubling_sum(gradients, range, factor) : ring_sum(gradients, range, factor);
  }
  return doubles ? rounded_doubling_sum(element, gradients, range, factor, owed_)
                 : rounded_ring_sum(element, gradients, range, factor, owed_);
}

void AllReduceOracle::step(std::uint64_t step, const std::vector<Values>& gradients) {
  const float factor = 1.0F / static_cast<float>(world_size_);
  Values mean(parameters_.size());
  for (const Bucket& bucket : buckets(views_, options_.bucket_bytes)) {
    const Values summed = sum(gradients, bucket.range, factor);
    std::copy(summed.begin(), summed.end(),
              mean.begin() + static_cast<std::ptrdiff_t>(bucket.range.begin));
  }
  plain_update(views_, settings_, step, {0, mean.size()}, parameters_, mean, momentum_);
}

}  // namespace dlobd::exchange
