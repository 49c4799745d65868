// BigDL's worker as the owner of a slice: its weights in float32, the mean of its gradients, and
// their optimizer. All of it lies in memory of its own, because a pass may be using the arena:
// start() reads the arena, settle() fills it, nothing else touches it.
//
// Errors: the endpoint's; corrupt_data for a message that is not due. On the loop's thread.
#pragma once

#include <cstdint>
#include <vector>

#include "exchange/bigdl_protocol.h"
#include "exchange/exchange.h"
#include "exchange/gather_slices.h"

namespace dlobd::exchange {

// true: as the real stack does it.
struct BigDlDefects {
  bool truncate_each_add = true;   // gradients are cut to 16 bits again after every addition
  bool lookup_per_block = true;    // the driver is asked where a block is whenever it is fetched
  bool momentum_not_saved = true;  // a snapshot's momentum is as it was before the first step
};

namespace bigdl {

class SliceOwner {
 public:
  // Registers the regions of the parameters and the momentum.
  SliceOwner(const Context& context, const BlockMemory& memory, BigDlDefects defects);

  // The weights are those in the arena.
  void start();
  // Cuts the weights into their block.
  void publish();
  // The sum of all workers' blocks of gradients, which are here, times 1 / `finished`.
  void average(int finished);
  // Of the weights, by that mean.
  void update(std::uint64_t step);
  // As Exchange::settle(). Rank 0's arena holds the float32 weights afterwards.
  base::Task<base::Result<void>> settle(Settle what);

 private:
  void hide_momentum();
  [[nodiscard]] std::span<float> own(std::span<float> whole) const;
  [[nodiscard]] std::span<std::uint16_t> block(Sort sort) const;
  [[nodiscard]] bool holds_numbers() const {
    return context_.arena.backing() == compute::Backing::memory;
  }

  Context context_;
  const BlockMemory& memory_;
  BigDlDefects defects_;
  int rank_;
  bool started_ = false;
  // Of the own slice the weights and the mean gradient; besides, on rank 0, settled weights.
  compute::ParameterArena master_;
  GatherSlices parameters_;
  GatherSlices momentum_;
  std::vector<float> hidden_momentum_;  // of the own slice, while rank 0's shows zeros
};

}  // namespace bigdl
}  // namespace dlobd::exchange
