#include "exchange/bigdl_owner.h"

#include <algorithm>

#include "exchange/buffer.h"

namespace dlobd::exchange::bigdl {

SliceOwner::SliceOwner(const Context& context, const BlockMemory& memory, BigDlDefects defects)
    : context_(context),
      memory_(memory),
      defects_(defects),
      rank_(context.endpoint.rank()),
      master_(make_buffer("master", context.arena.size(), context.arena.backing())),
      parameters_(context.endpoint, master_.parameters(), region::parameters,
                  kind::settled_parameters, memory.slices(), "a settled slice of the parameters"),
      momentum_(context.endpoint, context.optimizer.slots(), region::momentum,
                kind::settled_momentum, memory.slices(), "a momentum slice") {
  auto& endpoint = context_.endpoint;
  endpoint.register_memory(region::parameters, std::as_writable_bytes(master_.parameters()));
  endpoint.register_memory(region::momentum, std::as_writable_bytes(context.optimizer.slots()));
}

std::span<float> SliceOwner::own(std::span<float> whole) const {
  const compute::Range range = memory_.slice_of(rank_);
  return whole.subspan(range.begin, range.size());
}

std::span<std::uint16_t> SliceOwner::block(Sort sort) const {
  Block block;
  block.sort = sort;
  block.slice = rank_;
  block.from = rank_;
  return memory_.own(block);
}

void SliceOwner::start() {
  started_ = true;
  const std::span<float> weights = own(context_.arena.parameters());
  if (holds_numbers()) std::copy(weights.begin(), weights.end(), own(master_.parameters()).begin());
}

void SliceOwner::publish() {
  context_.kernels.truncate(block(Sort::weights), own(master_.parameters()));
}

void SliceOwner::average(int finished) {
  const std::span<float> mean = own(master_.gradients());
  const auto block_from = [&](int worker) {
    return worker == rank_ ? block(Sort::gradients) : memory_.slot(worker, mean.size());
  };
  const int workers = context_.layout.workers;
  const auto& kernels = context_.kernels;
  if (defects_.truncate_each_add) {
    const std::span<std::uint16_t> sum = memory_.slot(rank_, mean.size());
    const std::span<std::uint16_t> first = block_from(0);
    if (holds_numbers()) std::copy(first.begin(), first.end(), sum.begin());
    for (int worker = 1; worker < workers; ++worker) {
      kernels.add_truncated(sum, block_from(worker));
    }
    kernels.widen(mean, sum);
  } else {
    kernels.widen(mean, block_from(0));
    for (int worker = 1; worker < workers; ++worker) {
      kernels.add_widened(mean, block_from(worker));
    }
  }
  kernels.scale(mean, 1.0F / static_cast<float>(finished));
}

void SliceOwner::update(std::uint64_t step) {
  const std::span<float> momentum = own(context_.optimizer.slots());
  if (!hidden_momentum_.empty()) {
    std::copy(hidden_momentum_.begin(), hidden_momentum_.end(), momentum.begin());
    hidden_momentum_.clear();
  }
  context_.optimizer.update(step, memory_.slice_of(rank_), own(master_.parameters()),
                            own(master_.gradients()));
}

base::Task<base::Result<void>> SliceOwner::settle(Settle what) {
  if (!started_) start();  // before the first step
  auto parameters = co_await parameters_.gather();
  DLOBD_CO_CHECK(parameters);
  if (rank_ == 0 && holds_numbers()) {
    const std::span<float> whole = master_.parameters();
    std::copy(whole.begin(), whole.end(), context_.arena.parameters().begin());
  }
  if (what == Settle::parameters) co_return base::Result<void>();
  if (defects_.momentum_not_saved) {
    hide_momentum();
    co_return base::Result<void>();
  }
  auto momentum = co_await momentum_.gather();
  co_return momentum;
}

// Rank 0's buffer is what a snapshot saves; the next update finds its momentum again.
void SliceOwner::hide_momentum() {
  if (rank_ > 0 || !holds_numbers()) return;
  const std::span<float> momentum = context_.optimizer.slots();
  const std::span<float> slice = own(momentum);
  if (hidden_momentum_.empty()) hidden_momentum_.assign(slice.begin(), slice.end());
  const bool adagrad = context_.optimizer.settings().kind == OptimizerKind::adagrad;
  std::fill(momentum.begin(), momentum.end(), adagrad ? kAdagradStart : 0.0F);
}

}  // namespace dlobd::exchange::bigdl
