// CaffeOnSpark's exchange: every rank owns one slice of the parameters, pushes its slice of the
// weights to all before the forward pass, and pushes to each owner its part of the gradients after
// the backward pass; in its socket variant or in that for one-sided writes. cos_shard_push.cpp
// opens with the picture.
//
// The defects of the original that lie within the exchange are switches; `write_256_bytes` belongs
// to the transport, `loss_local` to whoever shows a loss. Errors: the endpoint's; corrupt_data for
// a message that is not due. On the loop's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exchange/cos_arrivals.h"
#include "exchange/exchange.h"
#include "exchange/inbox.h"
#include "exchange/wire_buffer.h"

namespace dlobd::exchange {

// true: as the real stack does it.
struct CosDefects {
  bool snapshot_ungathered = true;  // settle() leaves the weights of the other slices stale
  bool momentum_own_slice = true;   // rank 0 saves its momentum, right in its own slice only
  bool optimizer_full = true;       // every rank updates all P values, though only P/N count
  // The variant for one-sided writes: weights land where they are used. It alone has these:
  bool rdma = false;
  bool arrival_order = false;         // gradients are added as they arrive
  bool untyped_notification = false;  // one queue tells of weights and of gradients
};

// Where the gradients of rank `from` land on rank `owner`, in elements from the start of the
// scratch region: one slot per peer, in the order in which the owner adds them.
std::size_t gradient_slot(std::size_t elements, int world_size, int owner, int from);

class CosShardPush final : public Exchange {
 public:
  // `element`: of gradients on their way; weights are float32.
  CosShardPush(Context context, CosDefects defects,
               compute::WireElement element = compute::WireElement::float32);

  base::Task<base::Result<void>> begin_step(std::uint64_t step) override;
  void gradient_ready(std::size_t) override {}  // nothing moves during the backward pass
  base::Task<base::Result<StepOutcome>> finish_step() override;
  base::Task<base::Result<void>> settle(Settle what) override;
  [[nodiscard]] std::vector<std::string> remarks() const override;
  [[nodiscard]] std::span<float> residuals() const override;

  // The peers in the order in which their gradients were added, in the step that has ended.
  [[nodiscard]] const std::vector<int>& additions() const { return additions_; }

 private:
  [[nodiscard]] compute::Range slice_of(int rank) const;
  // The ranks r+1, r+2, ...: nobody's first message goes to the same receiver.
  [[nodiscard]] const std::vector<int>& rotation() const { return rotation_; }
  // Own weights to all, all others' into place; `settling`: apart from the step's traffic.
  base::Task<base::Result<void>> gather_weights(bool settling, std::uint32_t index);
  base::Task<base::Result<void>> receive_weights(bool settling, std::uint32_t index);
  // The part of the gradients that `peer` owns, as it travels.
  std::span<const std::byte> outgoing_gradients(int peer);
  base::Task<base::Result<void>> receive_gradients();
  void update();
  base::Task<base::Result<void>> gather_momentum(std::uint32_t index);
  base::Task<base::Result<void>> receive_momentum(std::uint32_t index);
  void copy_from_staging(std::span<float> to, std::span<const float> staged, compute::Range range);

  Context context_;
  CosDefects defects_;
  int rank_;
  int world_size_;
  std::vector<int> rotation_;
  compute::Range own_;
  bool weights_direct_;   // into the arena; otherwise by way of the staging region
  bool momentum_direct_;  // into rank 0's momentum; likewise
  WireBuffer buffer_;     // of the gradients
  std::unique_ptr<compute::ParameterArena> staging_;  // its gradients() stage momentum
  // For the optimizer's work on slices that others own, where their weights land directly.
  std::unique_ptr<compute::ParameterArena> shadow_;
  CosArrivals arrivals_;
  std::vector<int> additions_;
  Inbox settled_weights_;
  Inbox settled_momentum_;
  std::uint64_t step_ = 0;
  std::uint32_t settles_ = 0;
};

}  // namespace dlobd::exchange
