#include "exchange/optimizer.h"

#include <algorithm>

#include "base/check.h"
#include "exchange/buffer.h"

namespace dlobd::exchange {
Sgd::Sgd(OptimizerSettings settings, compute::ParameterArena& arena,
         const compute::Kernels& kernels)
    : settings_(std::move(settings)),
      arena_(arena),
      kernels_(kernels),
      momentum_(make_buffer("momentum", arena.size(), arena.backing())) {}

void Sgd::update(std::uint64_t step, compute::Range range) {
  CHECK(range.begin <= range.end && range.end <= arena_.size(), "range {} to {} of {} parameters",
        range.begin, range.end, arena_.size());
  const double rate = settings_.learning_rate.at(step);
  for (const compute::ParameterView& view : arena_.views()) {
    const std::size_t begin = std::max(range.begin, view.offset);
    const std::size_t end = std::min(range.end, view.offset + view.size);
    if (begin >= end) continue;
    compute::SgdStep values;
    values.learning_rate = static_cast<float>(rate * view.lr_multiplier);
    values.momentum = static_cast<float>(settings_.momentum);
    values.weight_decay = static_cast<float>(settings_.weight_decay * view.decay_multiplier);
    const std::size_t size = end - begin;
    kernels_.sgd(arena_.parameters().subspan(begin, size), arena_.gradients().subspan(begin, size),
                 momentum().subspan(begin, size), values);
  }
}

}  // namespace dlobd::exchange
