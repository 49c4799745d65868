// One step of BigDL on worker r of N, P parameters; the driver is rank N. Worker r owns slice r:
// floor(P / N) elements, one more in the first P mod N slices. A block is a slice, or a part of a
// gradient, in elements of 2 bytes.
//
//                  worker r                                   driver
//   begin_step     <-------------------- launch job 1 ------- to all, once all have registered a
//                                                             block of weights, or done job 2:
//                                                             how long a pass may take
//     GET WEIGHTS  for each other owner p, four at a time:
//                  where is the weight block of p? ---------> (a defect: asked each time)
//                  <------------------------------- p ------- location
//                  fetch --> p;  p --> block (data): widened into the arena. Its own slice passes
//                  through 16 bits too: all compute with the same weights.
//                  the replica runs forward and backward
//   finish_step
//     PUT GRADIENTS  all gradients, cut to 16 bits, one block for each owner: nothing moves
//                  (the first time, each block is registered ------> driver)
//                  result of job 1: its time ---------------> when N have come:
//                  <-------------------- launch job 2 ------- to all: how many passes count
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
// Settled slices of the parameters land with rank 0's owner, which holds nothing else there; the
// ranks meet again before they settle once more.
//
// Stragglers (BigDlDrop; bigdl_drop.h has the driver's rule). From the launch of job 1 a pass may
// take as long as the launch says: getting weights, waiting for a pass of an earlier step that was
// cut off and still runs, and its own. If it is not over by then, the worker puts blocks of zeros
// and reports itself cut off; in job 2 the mean is over the n passes that were over in time (times
// 1/n), or, where the launch says 0, there is no update. Messages and bytes are the same in each
// step. Zeros add nothing: x + 0 is x, but for a -0, whose sign the update does not show. Until the
// pass that was cut off is over, it alone has the arena: the own slice is updated in the owner's
// memory, weights that were fetched stay in their slots, and if it outlasts a step they are never
// read.
#include "exchange/bigdl_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "exchange/not_due.h"

namespace dlobd::exchange {

using bigdl::Block;
using bigdl::Control;
using bigdl::Say;
using bigdl::Sort;
using metrics::Phase;
using transport::Traffic;

BigDlBlocks::BigDlBlocks(Context context, BigDlDefects defects)
    : context_(context),
      rank_(context.endpoint.rank()),
      workers_(context.layout.workers),
      driver_(context.layout.workers),
      memory_(context),
      fetcher_(context, memory_, defects.lookup_per_block),
      server_(context, memory_),
      owner_(context, memory_, defects) {}

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
  cut_off_ = false;
  auto launch = co_await launched(1);
  DLOBD_CO_CHECK(launch);
  launched_at_ = context_.endpoint.loop().now();
  limit_.reset();
  if (*launch != bigdl::kNoTime) limit_ = base::Duration(*launch);
  const auto scope = context_.phases.enter(Phase::exchange);
  auto weights = co_await get_weights();
  getting_weights_ = context_.endpoint.loop().now() - launched_at_;
  ++steps_;
  co_return weights;
}

std::optional<base::Time> BigDlBlocks::pass_deadline() const {
  if (!limit_) return std::nullopt;
  return launched_at_ + *limit_;
}

void BigDlBlocks::begin_pass() {
  if (arena_in_use_) {
    arena_in_use_ = false;
    for (int owner = 0; owner < workers_; ++owner) use_weights(owner);
  }
  pass_began_ = context_.endpoint.loop().now();
}

void BigDlBlocks::cut_off() {
  cut_off_ = true;
  arena_in_use_ = true;
  ++cut_offs_;
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
  owner_.start();
  owner_.publish();
  server_.start();
  Control control;
  control.say = Say::registration;
  control.block = own_block(Sort::weights, rank_);
  auto told = co_await bigdl::say(context_.endpoint, driver_, bigdl::kind::to_driver, 0, control);
  co_return told;
}

base::Task<base::Result<std::int64_t>> BigDlBlocks::launched(int job) {
  const auto scope = context_.phases.enter(Phase::schedule);
  auto arrival = co_await context_.endpoint.next(bigdl::kind::launch);
  DLOBD_CO_CHECK(arrival);
  auto control = bigdl::read_control(*arrival);
  DLOBD_CO_CHECK(control);
  const std::int64_t least = job == 1 ? bigdl::kNoTime : 0;
  const std::int64_t most = job == 1 ? std::numeric_limits<std::int64_t>::max() / 2 : workers_;
  if (arrival->source != driver_ || control->say != Say::launch || control->value != job ||
      arrival->index != static_cast<std::uint32_t>(step_) || control->amount < least ||
      control->amount > most) {
    co_return not_due(*arrival, "a launch");
  }
  co_return control->amount;
}

base::Task<base::Result<void>> BigDlBlocks::tell_result(int job, bool last) {
  Control control;
  control.say = last ? Say::last_result : Say::result;
  control.value = job;
  if (job == 1) {
    const base::Duration pass = context_.endpoint.loop().now() - pass_began_;
    control.amount = cut_off_ ? bigdl::kNoTime : (getting_weights_ + pass).count();
  } else {
    result_due_ = false;
  }
  return bigdl::say(context_.endpoint, driver_, bigdl::kind::to_driver,
                    static_cast<std::uint32_t>(step_), control);
}

base::Task<base::Result<void>> BigDlBlocks::get_weights() {
  bigdl::BlockFetcher::Here use = [this](int owner) {
    if (!arena_in_use_) use_weights(owner);
  };
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
  const auto finished = static_cast<int>(*launch);
  {
    const auto scope = context_.phases.enter(Phase::exchange);
    auto fetched = co_await get_gradients();
    DLOBD_CO_CHECK(fetched);
    if (finished > 0) owner_.average(finished);
  }
  if (finished > 0) {
    const auto scope = context_.phases.enter(Phase::update);
    owner_.update(step_);
  } else {
    ++discards_;
  }
  const auto scope = context_.phases.enter(Phase::exchange);
  owner_.publish();
  result_due_ = true;
  co_return StepOutcome::parameters_replaced;
}

base::Task<base::Result<void>> BigDlBlocks::put_gradients() {
  base::TaskGroup registrations(context_.endpoint.loop());
  for (int owner = 0; owner < workers_; ++owner) {
    Control control;
    control.say = Say::registration;
    control.block = own_block(Sort::gradients, owner);
    const std::span<std::uint16_t> block = memory_.own(control.block);
    if (!cut_off_) {
      context_.kernels.truncate(block, part(context_.arena.gradients(), owner));
    } else if (context_.arena.backing() == compute::Backing::memory) {
      std::fill(block.begin(), block.end(), std::uint16_t{0});
    }
    if (registered_) continue;
    registrations.spawn(bigdl::say(context_.endpoint, driver_, bigdl::kind::to_driver, 0, control));
  }
  registered_ = true;
  auto told = co_await registrations.join();
  co_return told;
}

base::Task<base::Result<void>> BigDlBlocks::get_gradients() {
  bigdl::BlockFetcher::Here keep = [](int) {};  // in its slot: the sum has an order
  auto fetched = co_await fetcher_.fetch_all(Sort::gradients, std::move(keep));
  co_return fetched;
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

std::vector<std::string> BigDlBlocks::remarks() const {
  std::vector<std::string> remarks;
  if (cut_offs_ > 0) {
    remarks.push_back(fmt::format(
        "its pass was cut off as a straggler's, its gradients not counted: {} of {} steps",
        cut_offs_, steps_));
  }
  if (rank_ == 0 && discards_ > 0) {
    remarks.push_back(
        fmt::format("updates were discarded, for too many stragglers were cut off: {} of {} steps",
                    discards_, steps_));
  }
  return remarks;
}

}  // namespace dlobd::exchange
