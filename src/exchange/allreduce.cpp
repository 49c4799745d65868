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

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace dlobd::exchange {
namespace {

std::size_t largest_of(const std::vector<Bucket>& buckets) {
  std::size_t largest = 0;
  for (const Bucket& bucket : buckets) largest = std::max(largest, bucket.range.size());
  return largest;
}

}  // namespace

AllReduce::AllReduce(Context context, AllReduceOptions options)
    : context_(context),
      buckets_(buckets(context.arena.views(), options.bucket_bytes)),
      bucket_of_view_(context.arena.views().size()),
      collective_(context.endpoint, context.kernels, context.arena.gradients(),
                  largest_of(buckets_), options.collective, context.arena.backing()),
      missing_(buckets_.size()),
      changed_(context.endpoint.loop()) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    for (const std::size_t view : buckets_[i].views) bucket_of_view_.at(view) = i;
  }
}

base::Task<base::Result<void>> AllReduce::begin_step(std::uint64_t) {
  CHECK(!open_ && !running_, "begin_step before the last step was finished");
  for (std::size_t i = 0; i < buckets_.size(); ++i) missing_[i] = buckets_[i].views.size();
  result_ = base::Result<void>();
  finishing_ = false;
  open_ = true;
  running_ = true;
  context_.endpoint.loop().spawn(run_step());
  co_return base::Result<void>();
}

void AllReduce::gradient_ready(std::size_t view) {
  std::size_t& missing = missing_[bucket_of_view_.at(view)];
  CHECK(open_ && missing > 0, "a gradient that is not due: view {}", view);
  if (--missing == 0) changed_.wake_all();
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

base::Task<base::Result<void>> AllReduce::settle(Settle) {
  co_return base::Result<void>();
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
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    while (missing_[i] > 0 && !finishing_) co_await changed_.wait();
    if (missing_[i] > 0) {
      if (context_.endpoint.error()) co_return base::fail(*context_.endpoint.error());
      const std::size_t gradients =
          std::accumulate(missing_.begin(), missing_.end(), std::size_t{0});
      co_return base::fail(
          base::ErrorKind::cancelled,
          fmt::format("the backward pass ended before all gradients were ready: {} missing",
                      gradients));
    }
    if (!finishing_ && !overlapped_) overlapped_.emplace(context_.phases);
    auto reduced = co_await collective_.all_reduce(buckets_[i].range, mean);
    overlapped_.reset();
    DLOBD_CO_CHECK(reduced);
  }
  co_return base::Result<void>();
}

}  // namespace dlobd::exchange
