// A sharded parameter server spread over the workers, as CaffeOnSpark and BigDL have it, in which
// nothing waits for what it does not need: gradients travel to their owners while the backward pass
// still runs, and an owner updates and returns each piece as soon as its sum is complete. float32
// on the wire, no driver. shard_push.cpp opens with the picture.
//
// A step once begun must be ended by finish_step(), also after an error elsewhere, when the
// endpoint has failed. Errors: the endpoint's; corrupt_data for a message that is not due;
// cancelled when the backward pass ended early. On the loop's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/waiters.h"
#include "exchange/exchange.h"
#include "exchange/gather_slices.h"
#include "exchange/pending.h"
#include "exchange/shard_pieces.h"

namespace dlobd::exchange {

class ShardPush final : public Exchange {
 public:
  ShardPush(Context context, ShardPushOptions options);

  base::Task<base::Result<void>> begin_step(std::uint64_t step) override;
  void gradient_ready(std::size_t view) override;
  base::Task<base::Result<StepOutcome>> finish_step() override;
  base::Task<base::Result<void>> settle(Settle what) override;
  base::Task<base::Result<void>> leave() override { return collect_weights(); }

 private:
  // The own pieces, one after the other: sum, update, return.
  base::Task<base::Result<void>> tend_shard();
  base::Task<base::Result<void>> receive_gradients(std::size_t index);
  base::Result<void> take_gradients(const transport::Arrival& arrival);
  void update(const Piece& piece);
  void return_weights(std::size_t index);
  // Puts the others' new weights into the arena, when all are there.
  base::Task<base::Result<void>> collect_weights();
  base::Result<void> take_weights(const transport::Arrival& arrival);
  void send_gradients(std::size_t bucket);
  base::Task<base::Result<void>> write(transport::Write write);

  [[nodiscard]] std::span<float> slot(int peer, compute::Range range) const;
  [[nodiscard]] std::span<float> master(compute::Range range) const;
  [[nodiscard]] bool holds_numbers() const {
    return context_.arena.backing() == compute::Backing::memory;
  }

  Context context_;
  ShardPushOptions options_;
  int rank_;
  int workers_;
  std::vector<Piece> pieces_;
  std::vector<int> order_;  // of additions
  compute::Range own_;
  compute::ParameterArena master_;   // the own slice, updated while the arena's is in use
  compute::ParameterArena staging_;  // new weights, while the arena's are in use
  compute::ParameterArena slots_;    // one for each other rank's gradients of the own slice
  GatherSlices momentum_;
  bool primed_ = false;
  bool weights_due_ = false;  // of the step that has ended: the others' are on their way

  // Of the step in hand.
  std::uint64_t step_ = 0;
  PendingBuckets pending_;
  std::vector<int> arrived_;  // by piece: ranks whose gradients are here
  bool finishing_ = false;
  std::optional<base::TaskGroup> running_;
  base::Waiters changed_;
  int open_writes_ = 0;
  std::optional<metrics::Phases::Transfer> overlapped_;
};

}  // namespace dlobd::exchange
