// A modern all-reduce: gradients are summed in buckets while the backward pass still runs, so that
// most of the communication is hidden behind it. allreduce.cpp opens with the picture.
//
// A step once begun must be ended by finish_step(), also after an error elsewhere: it returns as
// soon as the endpoint has failed, or at once if gradients are missing. Only then may the exchange
// go. Errors: the endpoint's, at finish_step(); cancelled when the backward pass ended early. On
// the loop's thread.
#pragma once

#include <cstdint>
#include <optional>

#include "exchange/collective.h"
#include "exchange/exchange.h"
#include "exchange/pending.h"

namespace dlobd::exchange {

struct AllReduceOptions {
  std::size_t bucket_bytes = 1 << 20;  // a bucket is closed when it holds at least this
  CollectiveOptions collective;
};

class AllReduce final : public Exchange {
 public:
  explicit AllReduce(Context context, AllReduceOptions options = {});

  base::Task<base::Result<void>> begin_step(std::uint64_t step) override;
  void gradient_ready(std::size_t view) override;
  base::Task<base::Result<StepOutcome>> finish_step() override;
  // Every rank holds the whole parameters and the whole momentum at all times; what ranks owe, in
  // 16 bits, is gathered.
  base::Task<base::Result<void>> settle(Settle what) override;
  [[nodiscard]] std::span<float> residuals() const override;

 private:
  base::Task<void> run_step();
  base::Task<base::Result<void>> reduce_buckets();

  Context context_;
  PendingBuckets pending_;
  Collective collective_;

  // Of the step in hand.
  bool open_ = false;     // between begin_step() and the end of finish_step()
  bool running_ = false;  // the step's coroutine
  bool finishing_ = false;
  base::Result<void> result_;
  std::optional<metrics::Phases::Transfer> overlapped_;
  base::Waiters changed_;
};

}  // namespace dlobd::exchange
