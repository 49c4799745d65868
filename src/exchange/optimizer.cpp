#include "exchange/optimizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/nearest.h"
#include "exchange/buffer.h"

namespace dlobd::exchange {

std::string_view name(OptimizerKind kind) {
  return kind == OptimizerKind::sgd ? "sgd" : "adagrad";
}

base::Result<OptimizerKind> parse_optimizer(std::string_view word) {
  if (word == "sgd") return OptimizerKind::sgd;
  if (word == "adagrad") return OptimizerKind::adagrad;
  return base::fail(
      base::ErrorKind::invalid_argument,
      fmt::format("no such optimizer, {}: {}",
                  base::suggestion(word, std::vector<std::string>{"sgd", "adagrad"}), word));
}

Optimizer::Optimizer(OptimizerSettings settings, compute::ParameterArena& arena,
                     const compute::Kernels& kernels)
    : settings_(std::move(settings)),
      arena_(arena),
      kernels_(kernels),
      slots_(make_buffer("slots", arena.size(), arena.backing())) {
  if (settings_.kind == OptimizerKind::adagrad && arena.backing() == compute::Backing::memory) {
    std::fill(slots().begin(), slots().end(), kAdagradStart);
  }
}

void Optimizer::update(std::uint64_t step, compute::Range range) {
  update(step, range, arena_.gradients().subspan(range.begin, range.size()));
}

void Optimizer::update(std::uint64_t step, compute::Range range, std::span<const float> gradients) {
  update(step, range, arena_.parameters().subspan(range.begin, range.size()), gradients);
}

void Optimizer::update(std::uint64_t step, compute::Range range, std::span<float> parameters,
                       std::span<const float> gradients) {
  CHECK(range.begin <= range.end && range.end <= arena_.size() &&
            parameters.size() == range.size() && gradients.size() == range.size(),
        "range {} to {} of {}: {} parameters, {} gradients", range.begin, range.end, arena_.size(),
        parameters.size(), gradients.size());
  const double rate = settings_.learning_rate.at(step);
  for (const compute::ParameterView& view : arena_.views()) {
    const std::size_t begin = std::max(range.begin, view.offset);
    const std::size_t end = std::min(range.end, view.offset + view.size);
    if (begin >= end) continue;
    const auto view_rate = static_cast<float>(rate * view.lr_multiplier);
    const std::size_t size = end - begin;
    const auto held = parameters.subspan(begin - range.begin, size);
    const auto kept = slots().subspan(begin, size);
    const auto given = gradients.subspan(begin - range.begin, size);
    if (settings_.kind == OptimizerKind::adagrad) {
      kernels_.adagrad(held, given, kept, view_rate);
      continue;
    }
    compute::SgdStep values;
    values.learning_rate = view_rate;
    values.momentum = static_cast<float>(settings_.momentum);
    values.weight_decay = static_cast<float>(settings_.weight_decay * view.decay_multiplier);
    kernels_.sgd(held, given, kept, values);
  }
}

}  // namespace dlobd::exchange
