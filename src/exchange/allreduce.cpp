// One step on each rank:
//
//   backward pass   ... conv2  fc1  fc2          gradients become ready, the last layer first
//   buckets                [ 1  ][   0   ]       of at least 1 MiB, contiguous in the arena
//   all-reduce      0 starts when its last gradient is ready, 1 when its own is and 0 is done, ...
//   finish_step     waits for what the backward pass has not hidden; the mean is in the arena, and
//                   the caller's optimizer updates all parameters, the same on every rank
//
// One coroutine per step works through the buckets, so all ranks reduce the same buckets in the
// same order, whichever gradient they finish first. Each bucket goes by the ring (2(N-1) chunks of
// n/N elements, in segments) or by recursive doubling (about log2 N messages of n elements); their
// files give the exact counts and say why no write hits memory in use. All buckets share one
// scratch memory: the arguments there hold across calls of different ranges.
//
// The arena's gradients of a bucket are changed between its last gradient_ready() and finish_step()
// only. No peer touches them otherwise: finished sums for a rank exist only after it has given its
// own part, and finish_step() returns after the last of them has landed.
#include "exchange/allreduce.h"

#include "base/check.h"

namespace dlobd::exchange {

AllReduce::AllReduce(Context context, AllReduceOptions options)
    : context_(context),
      pending_(context.arena.views(), options.bucket_bytes),
      collective_(context.endpoint, context.kernels, context.arena.gradients(),
                  largest(pending_.buckets()), options.collective, context.arena.backing()),
      changed_(context.endpoint.loop()) {}

base::Task<base::Result<void>> AllReduce::begin_step(std::uint64_t) {
  CHECK(!open_ && !running_, "begin_step before the last step was finished");
  pending_.begin();
  result_ = base::Result<void>();
  finishing_ = false;
  open_ = true;
  running_ = true;
  context_.endpoint.loop().spawn(run_step());
  co_return base::Result<void>();
}

void AllReduce::gradient_ready(std::size_t view) {
  CHECK(open_, "a gradient outside a step: view {}", view);
  if (pending_.ready(view)) changed_.wake_all();
}

base::Task<base::Result<StepOutcome>> AllReduce::finish_step() {
  const auto scope = context_.phases.enter(metrics::Phase::exchange);
  overlapped_.reset();
  finishing_ = true;
  changed_.wake_all();
  while (running_) co_await changed_.wait();
  open_ = false;
  DLOBD_CO_CHECK(result_);
  co_return StepOutcome::gradients_averaged;
}

base::Task<base::Result<void>> AllReduce::settle(Settle what) {
  base::Result<void> settled;
  if (what == Settle::parameters_and_optimizer && collective_.buffer().rounds()) {
    settled = co_await collective_.buffer().residuals()->gather();
  }
  co_return settled;
}

std::span<float> AllReduce::residuals() const {
  return collective_.buffer().all_residuals();
}

base::Task<void> AllReduce::run_step() {
  auto result = co_await reduce_buckets();
  overlapped_.reset();
  result_ = result;
  running_ = false;
  changed_.wake_all();
}

base::Task<base::Result<void>> AllReduce::reduce_buckets() {
  const float mean = 1.0F / static_cast<float>(context_.endpoint.world_size());
  for (std::size_t i = 0; i < pending_.buckets().size(); ++i) {
    while (!pending_.complete(i) && !finishing_) co_await changed_.wait();
    if (!pending_.complete(i)) {
      if (context_.endpoint.error()) co_return base::fail(*context_.endpoint.error());
      co_return base::fail(pending_.ended_early());
    }
    if (!finishing_ && !overlapped_) overlapped_.emplace(context_.phases);
    auto reduced = co_await collective_.all_reduce(pending_.buckets()[i].range, mean);
    overlapped_.reset();
    DLOBD_CO_CHECK(reduced);
  }
  co_return base::Result<void>();
}

}  // namespace dlobd::exchange
