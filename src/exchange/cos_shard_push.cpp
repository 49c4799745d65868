// One step of CaffeOnSpark on rank r of N, P parameters of 4 bytes. Rank r owns slice r, the
// elements [floor(r P / N), floor((r+1) P / N)).
//
//   begin_step    WEIGHTS    slice r  ---->  r+1, r+2, ...        N-1 messages of 4P/N bytes
//                            slices of r+1, r+2, ...  ---->  here N-1 messages of 4P/N bytes
//                 the replica runs forward and backward: the loss is this rank's own
//   finish_step   GRADIENTS  all gradients times 1/N
//                            slice p of them  ---->  owner p      N-1 messages of 4P/N bytes
//                            N-1 parts of slice r  ---->  scratch; own + (r+1) + (r+2) + ...
//                 UPDATE     SGD over all P values; only slice r is right, the rest is overwritten
//                            by the next step's weights
//
// Over one-sided writes (rdma) the same messages land straight where they are used: weights in the
// arena; gradients, as ever, in a slot for each peer. They are added in the order of their arrival
// (arrival_order), and one queue tells of both kinds (untyped_notification, see cos_arrivals.h).
//
//   per rank and step: 2(N-1) messages out and in, 8P(N-1)/N bytes out and in (exactly: 4 bytes
//   times (N-1) |slice r| + P - |slice r|, either way); two rounds; N = 1 sends nothing.
//
//   16 bits: gradients alone are rounded, those that travel: the own slice is added in float32.
//   What rounding costs, rank r owes to the same element of its next step (residuals.h). 2 bytes an
//   element for 4.
//
// There is no barrier: the two receive loops act as one. That is also why one-sided writes never
// hit memory in use. Write W(t), G(t) for a rank's weight and gradient messages of step t:
//
//   scratch   s writes its slot at owner o as G(t+1) after it has received o's W(t+1). o sends that
//             in begin_step(t+1), after finish_step(t) has added the slot. So one slot per peer is
//             enough.
//   staging   s writes its slice at o as W(t+1) after it has received o's G(t). o sends that in
//             finish_step(t), and has copied the slice into its arena in begin_step(t).
//   arena     (weights landing directly) by the same message, o has finished its backward pass over
//             the weights of step t. But o may still be in its update, and its evaluation or
//             snapshot of step t may yet come. So a direct landing is right only if o's update
//             leaves foreign slices alone, and if the early write changes no bit of a settled
//             arena or cannot come.
//             sockets: direct with optimizer_full and snapshot_ungathered fixed, for then a settled
//             arena already holds the values that W(t+1) brings. In all other cases weights land
//             in the staging region and are copied by the weight phase, as the real socket variant
//             copies them out of its queues.
//             rdma: always direct. With optimizer_full, the work on foreign slices, whose result is
//             of no use, is done on a shadow of them: in the original it races with the peers'
//             writes. With snapshot_ungathered, foreign slices of a settled arena hold the weights
//             of step t, or, where ranks do not meet after settling, already those of t+1.
//   settle    s writes after its finish_step(t), so after o's G(t): the argument of staging and
//             arena. The next W(t+1) carries the same values as the settled message, so their order
//             does not matter. Momentum lands at rank 0 only, in slices that rank 0's update leaves
//             alone (optimizer_full fixed), and otherwise in staging; the next write there follows
//             rank 0's next W, so the snapshot is over.
//   sources   begin_step and finish_step return only when their own writes have been handed over,
//             so neither the update nor the next backward pass changes bytes on their way.
#include "exchange/cos_shard_push.h"

#include <fmt/format.h>

#include <algorithm>

#include "exchange/buffer.h"
#include "exchange/kinds.h"
#include "exchange/slices.h"

namespace dlobd::exchange {
namespace {

using metrics::Phase;
using transport::Notification;
using transport::Traffic;

std::vector<int> rotated(int rank, int world_size) {
  std::vector<int> ranks;
  for (int i = 1; i < world_size; ++i) ranks.push_back((rank + i) % world_size);
  return ranks;
}

std::span<float> part(std::span<float> whole, compute::Range range) {
  return whole.subspan(range.begin, range.size());
}

}  // namespace

std::size_t gradient_slot(std::size_t elements, int world_size, int owner, int from) {
  const auto place = static_cast<std::size_t>(wrap(from - owner - 1, world_size));
  return place * slice(elements, world_size, owner).size();
}

CosShardPush::CosShardPush(Context context, CosDefects defects, compute::WireElement element)
    : context_(context),
      defects_(defects),
      rank_(context.endpoint.rank()),
      world_size_(context.endpoint.world_size()),
      rotation_(rotated(rank_, world_size_)),
      own_(slice_of(rank_)),
      weights_direct_(defects.rdma || (!defects.optimizer_full && !defects.snapshot_ungathered)),
      momentum_direct_(!defects.optimizer_full),
      buffer_(context.endpoint, context.kernels, element, context.arena.gradients(),
              static_cast<std::size_t>(world_size_ - 1) * own_.size(), context.arena.backing()),
      arrivals_(context.endpoint, defects.rdma && defects.untyped_notification),
      settled_weights_(context.endpoint, kind::settled_weights, "a settled weight slice"),
      settled_momentum_(context.endpoint, kind::settled_momentum, "a momentum slice") {
  if (!weights_direct_ || !momentum_direct_) {
    staging_ = std::make_unique<compute::ParameterArena>(
        make_buffer("staging", context.arena.size(), context.arena.backing()));
  }
  if (defects.rdma && defects.optimizer_full && world_size_ > 1) {
    shadow_ = std::make_unique<compute::ParameterArena>(
        make_buffer("shadow", context.arena.size(), context.arena.backing()));
  }
  auto& endpoint = context_.endpoint;
  endpoint.register_memory(region::parameters, std::as_writable_bytes(context.arena.parameters()));
  endpoint.register_memory(
      region::momentum,
      std::as_writable_bytes(momentum_direct_ ? context.optimizer.slots() : staging_->gradients()));
  if (!weights_direct_) {
    endpoint.register_memory(region::staging, std::as_writable_bytes(staging_->parameters()));
  }
}

compute::Range CosShardPush::slice_of(int rank) const {
  return slice(context_.arena.size(), world_size_, rank);
}

void CosShardPush::copy_from_staging(std::span<float> to, std::span<const float> staged,
                                     compute::Range range) {
  if (context_.arena.backing() == compute::Backing::phantom) return;
  const auto from = staged.subspan(range.begin, range.size());
  std::copy(from.begin(), from.end(), part(to, range).begin());
}

base::Task<base::Result<void>> CosShardPush::begin_step(std::uint64_t step) {
  step_ = step;
  const auto scope = context_.phases.enter(Phase::exchange);
  auto gathered = co_await gather_weights(false, 0);
  co_return gathered;
}

base::Task<base::Result<void>> CosShardPush::gather_weights(bool settling, std::uint32_t index) {
  const Notification notification = settling ? Notification{kind::settled_weights, index}
                                             : arrivals_.notification(CosMessage::weights, step_);
  base::TaskGroup sends(context_.endpoint.loop());
  for (const int peer : rotation()) {
    transport::Write write(peer, weights_direct_ ? region::parameters : region::staging,
                           own_.begin * sizeof(float),
                           std::as_bytes(part(context_.arena.parameters(), own_)), notification,
                           settling ? Traffic::apart : Traffic::data);
    sends.spawn(context_.endpoint.write(write));
  }
  auto received = co_await receive_weights(settling, index);
  auto sent = co_await sends.join();
  DLOBD_CO_CHECK(received);
  co_return sent;
}

base::Task<base::Result<void>> CosShardPush::receive_weights(bool settling, std::uint32_t index) {
  base::Result<void> arrived;
  for (const int peer : rotation()) {
    const compute::Range theirs = slice_of(peer);
    const std::size_t bytes = theirs.size() * sizeof(float);
    if (settling) {
      arrived = co_await settled_weights_.from(peer, index, bytes);
    } else {
      arrived = co_await arrivals_.from(peer, CosMessage::weights, step_, bytes);
    }
    DLOBD_CO_CHECK(arrived);
    if (!weights_direct_) {
      copy_from_staging(context_.arena.parameters(), staging_->parameters(), theirs);
    }
  }
  co_return base::Result<void>();
}

base::Task<base::Result<StepOutcome>> CosShardPush::finish_step() {
  {
    const auto scope = context_.phases.enter(Phase::exchange);
    if (world_size_ > 1) {
      context_.kernels.scale(context_.arena.gradients(), 1.0F / static_cast<float>(world_size_));
    }
    base::TaskGroup sends(context_.endpoint.loop());
    for (const int peer : rotation()) {
      const std::size_t slot = gradient_slot(context_.arena.size(), world_size_, peer, rank_);
      transport::Write write(peer, region::scratch, slot * buffer_.element_bytes(),
                             outgoing_gradients(peer),
                             arrivals_.notification(CosMessage::gradients, step_), Traffic::data);
      sends.spawn(context_.endpoint.write(write));
    }
    auto received = co_await receive_gradients();
    auto sent = co_await sends.join();
    DLOBD_CO_CHECK(received);
    DLOBD_CO_CHECK(sent);
  }
  const auto scope = context_.phases.enter(Phase::update);
  update();
  co_return StepOutcome::parameters_replaced;
}

std::span<const std::byte> CosShardPush::outgoing_gradients(int peer) {
  const compute::Range theirs = slice_of(peer);
  buffer_.take_what_is_owed(theirs);
  return buffer_.outgoing(theirs);
}

base::Task<base::Result<void>> CosShardPush::receive_gradients() {
  const std::size_t bytes = own_.size() * buffer_.element_bytes();
  additions_.clear();
  for (int peer : rotation()) {
    if (defects_.arrival_order) {
      auto first = co_await arrivals_.from_any(CosMessage::gradients, step_, bytes);
      DLOBD_CO_CHECK(first);
      peer = *first;
    } else {
      auto arrived = co_await arrivals_.from(peer, CosMessage::gradients, step_, bytes);
      DLOBD_CO_CHECK(arrived);
    }
    buffer_.add(own_, gradient_slot(context_.arena.size(), world_size_, rank_, peer));
    additions_.push_back(peer);
  }
  co_return base::Result<void>();
}

std::span<float> CosShardPush::residuals() const {
  return buffer_.all_residuals();
}

void CosShardPush::update() {
  const compute::Range all{0, context_.arena.size()};
  context_.optimizer.update(step_, defects_.optimizer_full && !shadow_ ? all : own_);
  if (!shadow_) return;
  for (const compute::Range range :
       {compute::Range{0, own_.begin}, compute::Range{own_.end, all.end}}) {
    context_.optimizer.update(step_, range, part(shadow_->parameters(), range),
                              part(context_.arena.gradients(), range));
  }
}

std::vector<std::string> CosShardPush::remarks() const {
  std::vector<std::string> remarks;
  const std::uint64_t weights = arrivals_.confused(CosMessage::weights);
  const std::uint64_t gradients = arrivals_.confused(CosMessage::gradients);
  if (weights + gradients > 0) {
    remarks.push_back(fmt::format(
        "the original would have confused messages here (untyped_notification): weights taken for "
        "gradients {} times, gradients for weights {} times",
        weights, gradients));
  }
  return remarks;
}

base::Task<base::Result<void>> CosShardPush::settle(Settle what) {
  const std::uint32_t index = settles_++;
  if (!defects_.snapshot_ungathered) {
    auto gathered = co_await gather_weights(true, index);
    DLOBD_CO_CHECK(gathered);
  }
  if (what == Settle::parameters_and_optimizer && !defects_.momentum_own_slice) {
    auto gathered = co_await gather_momentum(index);
    DLOBD_CO_CHECK(gathered);
  }
  if (what == Settle::parameters_and_optimizer && buffer_.rounds()) {
    auto gathered = co_await buffer_.residuals()->gather();
    DLOBD_CO_CHECK(gathered);
  }
  co_return base::Result<void>();
}

base::Task<base::Result<void>> CosShardPush::gather_momentum(std::uint32_t index) {
  if (rank_ == 0) {
    auto received = co_await receive_momentum(index);
    co_return received;
  }
  transport::Write write(0, region::momentum, own_.begin * sizeof(float),
                         std::as_bytes(part(context_.optimizer.slots(), own_)),
                         Notification{kind::settled_momentum, index}, Traffic::apart);
  auto sent = co_await context_.endpoint.write(write);
  co_return sent;
}

base::Task<base::Result<void>> CosShardPush::receive_momentum(std::uint32_t index) {
  for (const int peer : rotation()) {
    const compute::Range theirs = slice_of(peer);
    auto arrived = co_await settled_momentum_.from(peer, index, theirs.size() * sizeof(float));
    DLOBD_CO_CHECK(arrived);
    if (!momentum_direct_) {
      copy_from_staging(context_.optimizer.slots(), staging_->gradients(), theirs);
    }
  }
  co_return base::Result<void>();
}

}  // namespace dlobd::exchange
