// One step of BigDL on worker r of N, P parameters; the driver is rank N. Worker r owns slice r:
// floor(P / N) elements, one more in the first P mod N slices. A block is a slice, or a part of a
// gradient, in elements of 2 bytes.
//
//                  worker r                                   driver
//   begin_step     <-------------------- launch job 1 ------- to all, once all have registered a
//                                                             block of weights, or done job 2
//     GET WEIGHTS  for each other owner p, four at a time:
//                  where is the weight block of p? ---------> (a defect: asked each time)
//                  <------------------------------- p ------- location
//                  fetch --> p;  p --> block (data): widened into the arena. Its own slice passes
//                  through 16 bits too: all compute with the same weights.
//                  the replica runs forward and backward
//   finish_step
//     PUT GRADIENTS  all gradients, cut to 16 bits, one block for each owner: nothing moves
//                  (the first time, each block is registered ------> driver)
//                  result of job 1 -------------------------> when N have come:
//                  <-------------------- launch job 2 ------- to all
//     AGGREGATE    look up and fetch the N-1 blocks of gradients for slice r, four at a time;
//                  block 0 + block 1 + ... + block N-1, in that order, times 1/N
//     UPDATE       SGD on slice r, in float32; the result is cut into the weight block, in place
//   begin_step     result of job 2 -------------------------> when N have come: launch job 1
//
//   per worker and step: 2(N-1) blocks out and in, 4P(N-1)/N bytes (exactly: 2 bytes times
//   (N-1) |slice r| + P - |slice r|). Control messages out, and as many in: 2 launches and results,
//   2(N-1) look-ups and locations, 2(N-1) fetches. In its first step a worker registers N+1 blocks
//   besides. The driver: 2N + 2N(N-1) out and in, and all registrations.
//
// The result of job 2 travels when the worker has decided what comes next, because here the step
// loop, not the driver, knows when training ends: with its next step it asks for another job 1; in
// leave() it says that none is wanted. BigDL's driver evaluates between the two as well.
//
// Why no block changes while somebody may read it. A worker fetches weights between job 1's launch
// and its result, gradients between job 2's launch and its result; the driver launches a job when
// all results of the one before have come. Blocks of gradients change in job 1, blocks of weights
// in job 2. A slot is written only when its worker has asked, and is read before it asks again.
// Settled slices land in rank 0's arena after their owners have been launched into job 2, so after
// rank 0's backward pass; its update leaves foreign slices alone, and the next get weights, which
// follows its own settle(), replaces them.
#include "exchange/bigdl_blocks.h"

#include <algorithm>
#include <utility>

#include "exchange/buffer.h"

namespace dlobd::exchange {

using bigdl::Block;
using bigdl::Control;
using bigdl::Say;
using bigdl::Sort;
using metrics::Phase;
using transport::Traffic;

BigDlBlocks::BigDlBlocks(Context context, BigDlDefects defects)
    : context_(context),
      defects_(defects),
      rank_(context.endpoint.rank()),
      workers_(context.layout.workers),
      driver_(context.layout.workers),
      memory_(context),
      fetcher_(context, memory_, defects.lookup_per_block),
      server_(context, memory_),
      parameters_(context.endpoint, context.arena.parameters(), bigdl::region::parameters,
                  bigdl::kind::settled_parameters, memory_.slices(),
                  "a settled slice of the parameters"),
      momentum_(context.endpoint, context.optimizer.momentum(), bigdl::region::momentum,
                bigdl::kind::settled_momentum, memory_.slices(), "a momentum slice"),
      master_(make_buffer("master", memory_.slice_of(rank_).size(), context.arena.backing())) {
  auto& endpoint = context_.endpoint;
  endpoint.register_memory(bigdl::region::parameters,
                           std::as_writable_bytes(context.arena.parameters()));
  endpoint.register_memory(bigdl::region::momentum,
                           std::as_writable_bytes(context.optimizer.momentum()));
}

std::span<float> BigDlBlocks::part(std::span<float> whole, int slice) const {
  const compute::Range range = memory_.slice_of(slice);
  return whole.subspan(range.begin, range.size());
}

Block BigDlBlocks::own_block(Sort sort, int slice) const {
  Block block;
  block.sort = sort;
  block.slice = slice;
  block.from = rank_;
  return block;
}

base::Task<base::Result<void>> BigDlBlocks::begin_step(std::uint64_t step) {
  auto begun = co_await begin_job();
  DLOBD_CO_CHECK(begun);
  step_ = step;
  auto launch = co_await launched(1);
  DLOBD_CO_CHECK(launch);
  const auto scope = context_.phases.enter(Phase::exchange);
  auto weights = co_await get_weights();
  co_return weights;
}

base::Task<base::Result<void>> BigDlBlocks::begin_job() {
  const auto scope = context_.phases.enter(Phase::exchange);
  // Named: g++ 12 frees the temporary of a conditional inside co_await twice.
  base::Result<void> begun;
  if (result_due_) {
    begun = co_await tell_result(2, false);
  } else {
    begun = co_await publish_weights_first();
  }
  co_return begun;
}

// What the arena holds is where training starts from: by now a checkpoint has been read into it.
base::Task<base::Result<void>> BigDlBlocks::publish_weights_first() {
  const std::span<float> start = part(context_.arena.parameters(), rank_);
  if (holds_numbers()) std::copy(start.begin(), start.end(), master_.parameters().begin());
  const Block block = own_block(Sort::weights, rank_);
  context_.kernels.truncate(memory_.own(block), start);
  server_.start();
  Control control;
  control.say = Say::registration;
  control.block = block;
  auto told = co_await bigdl::say(context_.endpoint, driver_, bigdl::kind::to_driver, 0, control);
  co_return told;
}

base::Task<base::Result<void>> BigDlBlocks::launched(int job) {
  const auto scope = context_.phases.enter(Phase::schedule);
  auto arrival = co_await context_.endpoint.next(bigdl::kind::launch);
  DLOBD_CO_CHECK(arrival);
  auto control = bigdl::read_control(*arrival);
  DLOBD_CO_CHECK(control);
  if (arrival->source != driver_ || control->say != Say::launch || control->value != job ||
      arrival->index != static_cast<std::uint32_t>(step_)) {
    co_return bigdl::out_of_place(*arrival, "a launch");
  }
  co_return base::Result<void>();
}

base::Task<base::Result<void>> BigDlBlocks::tell_result(int job, bool last) {
  Control control;
  control.say = last ? Say::last_result : Say::result;
  control.value = job;
  if (job == 2) result_due_ = false;
  return bigdl::say(context_.endpoint, driver_, bigdl::kind::to_driver,
                    static_cast<std::uint32_t>(step_), control);
}

base::Task<base::Result<void>> BigDlBlocks::get_weights() {
  bigdl::BlockFetcher::Here use = [this](int owner) { use_weights(owner); };
  auto fetched = co_await fetcher_.fetch_all(Sort::weights, std::move(use));
  co_return fetched;
}

void BigDlBlocks::use_weights(int owner) {
  const std::span<float> weights = part(context_.arena.parameters(), owner);
  context_.kernels.widen(weights, owner == rank_ ? memory_.own(own_block(Sort::weights, rank_))
                                                 : memory_.slot(owner, weights.size()));
}

base::Task<base::Result<StepOutcome>> BigDlBlocks::finish_step() {
  if (context_.endpoint.error()) {
    co_await server_.stopped();
    co_return base::fail(*context_.endpoint.error());
  }
  {
    const auto scope = context_.phases.enter(Phase::exchange);
    auto put = co_await put_gradients();
    DLOBD_CO_CHECK(put);
    auto told = co_await tell_result(1, false);
    DLOBD_CO_CHECK(told);
  }
  auto launch = co_await launched(2);
  DLOBD_CO_CHECK(launch);
  {
    const auto scope = context_.phases.enter(Phase::exchange);
    auto summed = co_await aggregate_gradients();
    DLOBD_CO_CHECK(summed);
  }
  {
    const auto scope = context_.phases.enter(Phase::update);
    update();
  }
  const auto scope = context_.phases.enter(Phase::exchange);
  context_.kernels.truncate(memory_.own(own_block(Sort::weights, rank_)),
                            part(context_.arena.parameters(), rank_));
  result_due_ = true;
  co_return StepOutcome::parameters_replaced;
}

base::Task<base::Result<void>> BigDlBlocks::put_gradients() {
  base::TaskGroup registrations(context_.endpoint.loop());
  for (int owner = 0; owner < workers_; ++owner) {
    Control control;
    control.say = Say::registration;
    control.block = own_block(Sort::gradients, owner);
    context_.kernels.truncate(memory_.own(control.block), part(context_.arena.gradients(), owner));
    if (registered_) continue;
    registrations.spawn(bigdl::say(context_.endpoint, driver_, bigdl::kind::to_driver, 0, control));
  }
  registered_ = true;
  auto told = co_await registrations.join();
  co_return told;
}

base::Task<base::Result<void>> BigDlBlocks::aggregate_gradients() {
  bigdl::BlockFetcher::Here keep = [](int) {};  // in its slot: the sum has an order
  auto fetched = co_await fetcher_.fetch_all(Sort::gradients, std::move(keep));
  DLOBD_CO_CHECK(fetched);
  sum_gradients();
  co_return base::Result<void>();
}

void BigDlBlocks::sum_gradients() {
  const std::span<float> mean = part(context_.arena.gradients(), rank_);
  const auto block_from = [&](int worker) {
    return worker == rank_ ? memory_.own(own_block(Sort::gradients, rank_))
                           : memory_.slot(worker, mean.size());
  };
  const auto& kernels = context_.kernels;
  if (defects_.truncate_each_add) {
    const std::span<std::uint16_t> sum = memory_.slot(rank_, mean.size());
    const std::span<std::uint16_t> first = block_from(0);
    if (holds_numbers()) std::copy(first.begin(), first.end(), sum.begin());
    for (int worker = 1; worker < workers_; ++worker) {
      kernels.add_truncated(sum, block_from(worker));
    }
    kernels.widen(mean, sum);
  } else {
    kernels.widen(mean, block_from(0));
    for (int worker = 1; worker < workers_; ++worker) {
      kernels.add_widened(mean, block_from(worker));
    }
  }
  kernels.scale(mean, 1.0F / static_cast<float>(workers_));
}

void BigDlBlocks::update() {
  const std::span<float> weights = part(context_.arena.parameters(), rank_);
  const std::span<float> master = master_.parameters().first(weights.size());
  const std::span<float> momentum = part(context_.optimizer.momentum(), rank_);
  if (!hidden_momentum_.empty()) {
    std::copy(hidden_momentum_.begin(), hidden_momentum_.end(), momentum.begin());
    hidden_momentum_.clear();
  }
  if (holds_numbers()) std::copy(master.begin(), master.end(), weights.begin());
  context_.optimizer.update(step_, memory_.slice_of(rank_));
  if (holds_numbers()) std::copy(weights.begin(), weights.end(), master.begin());
}

base::Task<base::Result<void>> BigDlBlocks::settle(Settle what) {
  auto parameters = co_await parameters_.gather();
  DLOBD_CO_CHECK(parameters);
  if (what == Settle::parameters) co_return base::Result<void>();
  if (defects_.momentum_not_saved) {
    hide_momentum();
    co_return base::Result<void>();
  }
  auto momentum = co_await momentum_.gather();
  co_return momentum;
}

// Rank 0's buffer is what a snapshot saves; the next update finds its momentum again.
void BigDlBlocks::hide_momentum() {
  if (rank_ > 0 || !holds_numbers()) return;
  const std::span<float> momentum = context_.optimizer.momentum();
  const std::span<float> own = part(momentum, rank_);
  if (hidden_momentum_.empty()) hidden_momentum_.assign(own.begin(), own.end());
  const bool adagrad = context_.optimizer.settings().kind == OptimizerKind::adagrad;
  std::fill(momentum.begin(), momentum.end(), adagrad ? kAdagradStart : 0.0F);
}

base::Task<base::Result<void>> BigDlBlocks::leave() {
  base::Result<void> told;
  if (result_due_) {
    told = co_await tell_result(2, true);
  } else {
    Control control;
    control.say = Say::leave;
    told = co_await bigdl::say(context_.endpoint, driver_, bigdl::kind::to_driver, 0, control,
                               Traffic::apart);
  }
  DLOBD_CO_CHECK(told);
  server_.start();  // where no step was made, it has only the farewell to wait for
  co_await server_.stopped();
  if (context_.endpoint.error()) co_return base::fail(*context_.endpoint.error());
  co_return base::Result<void>();
}

}  // namespace dlobd::exchange
