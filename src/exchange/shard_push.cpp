// One step on rank r of N, P parameters of 4 bytes; rank r owns slice r and holds its momentum.
//
//   backward pass   ... conv2  conv1              gradients become ready, the last layer first
//     each piece p of a finished bucket, owned by another:  p ----> its owner's slot for r
//     each piece of slice r, when all N gradients are here: their sum in a fixed order, the mean,
//     SGD on the float32 master; the new weights  ----> all others' staging memory
//   finish_step     what the backward pass has not hidden of that; the arena's slice r is renewed
//   begin_step      waits for the others' new weights of the step before; they enter the arena
//
//   per rank and step: 4 bytes times (P - |slice r|) of gradients and (N-1) |slice r| of weights
//   out, the same in: 8P(N-1)/N. Messages: one for each piece of another, N-1 for each own one.
//   shard_pieces.h says what a piece is.
//
// The owner adds, updates and sends while its own backward pass still reads the arena's weights, so
// it works on a master copy of its slice; for the same reason new weights land in staging memory.
// Why one buffer of each kind is enough. Write G(s), W(s) for gradients and new weights of a piece
// in step s.
//
//   slot      q writes G(s+1) in the backward pass of s+1, after it has collected all W(s); r sends
//             W(s) of a piece when it has added all G(s) of it.
//   staging   o sends W(s+1) when it has r's G(s+1), which r sends after it has copied W(s).
//   master    changes for s+1 when all G(s+1) are here: then W(s) has arrived everywhere.
//   gradients finish_step returns when all writes have been handed over.
//   momentum  lands at rank 0 in slices that rank 0 never updates; the next write follows rank 0's
//             next G, so its snapshot is over, or carries the same values.
#include "exchange/shard_push.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "exchange/buffer.h"
#include "exchange/not_due.h"

namespace dlobd::exchange {
namespace push {
namespace {

namespace kind {
constexpr transport::Kind gradients = 0;
constexpr transport::Kind weights = 1;
constexpr transport::Kind settled_momentum = 2;
}  // namespace kind

namespace region {
constexpr transport::RegionId gradients = 0;
constexpr transport::RegionId momentum = 1;
constexpr transport::RegionId slots = 2;
constexpr transport::RegionId staging = 3;
constexpr transport::RegionId master = 4;
}  // namespace region

std::vector<compute::Range> all_shards(const ShardPushOptions& options, std::size_t elements,
                                       int workers) {
  std::vector<compute::Range> shards;
  for (int rank = 0; rank < workers; ++rank) {
    shards.push_back(shard_of(options, elements, workers, rank));
  }
  return shards;
}

// Where rank `from`'s gradients for `piece` land at their owner: one slot for each other rank.
std::size_t slot_offset(int from, const Piece& piece, compute::Range owned) {
  const auto place = static_cast<std::size_t>(from < piece.owner ? from : from - 1);
  return place * owned.size() + piece.range.begin - owned.begin;
}

}  // namespace
}  // namespace push

using metrics::Phase;
using transport::Notification;
using transport::Traffic;

ShardPush::ShardPush(Context context, ShardPushOptions options)
    : context_(context),
      options_(options),
      rank_(context.endpoint.rank()),
      workers_(context.layout.workers),
      pieces_(pieces_of(options, context.arena.views(), workers_)),
      order_(order_of_addition(options, workers_, rank_)),
      own_(shard_of(options, context.arena.size(), workers_, rank_)),
      master_(make_buffer("master", own_.size(), context.arena.backing())),
      staging_(make_buffer("staging", context.arena.size(), context.arena.backing())),
      slots_(make_buffer("slots", static_cast<std::size_t>(workers_ - 1) * own_.size(),
                         context.arena.backing())),
      momentum_(context.endpoint, context.optimizer.slots(), push::region::momentum,
                push::kind::settled_momentum,
                push::all_shards(options, context.arena.size(), workers_), "a momentum slice"),
      pending_(context.arena.views(), options.bucket_bytes),
      arrived_(pieces_.size()),
      changed_(context.endpoint.loop()) {
  auto& endpoint = context_.endpoint;
  const auto add = [&endpoint](transport::RegionId id, std::span<float> memory) {
    endpoint.register_memory(id, std::as_writable_bytes(memory));
  };
  add(push::region::gradients, context.arena.gradients());
  add(push::region::momentum, context.optimizer.slots());
  add(push::region::slots, slots_.parameters());
  add(push::region::staging, staging_.parameters());
  add(push::region::master, master_.parameters());
}

std::span<float> ShardPush::slot(int peer, compute::Range range) const {
  Piece piece;
  piece.range = range;
  piece.owner = rank_;
  return slots_.parameters().subspan(push::slot_offset(peer, piece, own_), range.size());
}

std::span<float> ShardPush::master(compute::Range range) const {
  return master_.parameters().subspan(range.begin - own_.begin, range.size());
}

base::Task<base::Result<void>> ShardPush::begin_step(std::uint64_t step) {
  CHECK(!running_, "begin_step before the last step was finished");
  const auto scope = context_.phases.enter(Phase::exchange);
  auto collected = co_await collect_weights();
  DLOBD_CO_CHECK(collected);
  step_ = step;
  if (!primed_ && holds_numbers()) {
    // What the arena holds is where training starts: by now a checkpoint has been read into it.
    const auto start = context_.arena.parameters().subspan(own_.begin, own_.size());
    std::copy(start.begin(), start.end(), master_.parameters().begin());
  }
  primed_ = true;
  pending_.begin();
  std::fill(arrived_.begin(), arrived_.end(), 0);
  finishing_ = false;
  running_.emplace(context_.endpoint.loop());
  running_->spawn(tend_shard());
  co_return base::Result<void>();
}

void ShardPush::gradient_ready(std::size_t view) {
  CHECK(running_, "a gradient outside a step: view {}", view);
  const auto bucket = pending_.ready(view);
  if (!bucket) return;
  if (options_.scale_first) {
    const compute::Range range = pending_.buckets()[*bucket].range;
    context_.kernels.scale(context_.arena.gradients().subspan(range.begin, range.size()),
                           1.0F / static_cast<float>(workers_));
  }
  send_gradients(*bucket);
  changed_.wake_all();
}

// To the owners after this rank first: nobody's first message goes to the same receiver.
void ShardPush::send_gradients(std::size_t bucket) {
  for (const bool after : {true, false}) {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const Piece& piece = pieces_[i];
      if (piece.bucket != bucket || piece.owner == rank_ || (piece.owner > rank_) != after)
        continue;
      const compute::Range owned = shard_of(options_, context_.arena.size(), workers_, piece.owner);
      const auto gradients =
          context_.arena.gradients().subspan(piece.range.begin, piece.range.size());
      transport::Write each(
          piece.owner, push::region::slots, push::slot_offset(rank_, piece, owned) * sizeof(float),
          std::as_bytes(gradients),
          Notification{push::kind::gradients, static_cast<std::uint32_t>(i)}, Traffic::data);
      running_->spawn(write(each));
    }
  }
}

// What of it the backward pass hides is counted as overlapped.
base::Task<base::Result<void>> ShardPush::write(transport::Write write) {
  if (open_writes_++ == 0 && !finishing_) overlapped_.emplace(context_.phases);
  auto written = co_await context_.endpoint.write(write);
  if (--open_writes_ == 0) overlapped_.reset();
  co_return written;
}

base::Task<base::Result<void>> ShardPush::tend_shard() {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    while (!pending_.complete(piece.bucket) && !finishing_) co_await changed_.wait();
    if (!pending_.complete(piece.bucket)) {
      if (context_.endpoint.error()) co_return base::fail(*context_.endpoint.error());
      co_return base::fail(pending_.ended_early());
    }
    if (piece.owner != rank_) continue;
    auto received = co_await receive_gradients(i);
    DLOBD_CO_CHECK(received);
    update(piece);
    return_weights(i);
  }
  co_return base::Result<void>();
}

base::Task<base::Result<void>> ShardPush::receive_gradients(std::size_t index) {
  while (arrived_[index] < workers_ - 1) {
    auto arrival = co_await context_.endpoint.next(push::kind::gradients);
    DLOBD_CO_CHECK(arrival);
    auto taken = take_gradients(*arrival);
    DLOBD_CO_CHECK(taken);
  }
  co_return base::Result<void>();
}

base::Result<void> ShardPush::take_gradients(const transport::Arrival& arrival) {
  if (arrival.index >= pieces_.size() || pieces_[arrival.index].owner != rank_ ||
      arrival.bytes != pieces_[arrival.index].range.size() * sizeof(float) ||
      arrived_[arrival.index] >= workers_ - 1) {
    return not_due(arrival, "gradients");
  }
  ++arrived_[arrival.index];
  return {};
}

void ShardPush::update(const Piece& piece) {
  const auto gradients = [&](int rank) {
    return rank == rank_ ? context_.arena.gradients().subspan(piece.range.begin, piece.range.size())
                         : slot(rank, piece.range);
  };
  // Added up where the first one lies: nobody needs it any more.
  const std::span<float> mean = gradients(order_.front());
  for (std::size_t i = 1; i < order_.size(); ++i) context_.kernels.add(mean, gradients(order_[i]));
  if (!options_.scale_first) {
    context_.kernels.scale(mean, 1.0F / static_cast<float>(workers_));
  }
  context_.optimizer.update(step_, piece.range, master(piece.range), mean);
}

void ShardPush::return_weights(std::size_t index) {
  const Piece& piece = pieces_[index];
  for (int i = 1; i < workers_; ++i) {
    transport::Write each((rank_ + i) % workers_, push::region::staging,
                          piece.range.begin * sizeof(float), std::as_bytes(master(piece.range)),
                          Notification{push::kind::weights, static_cast<std::uint32_t>(index)},
                          Traffic::data);
    running_->spawn(write(each));
  }
}

base::Task<base::Result<StepOutcome>> ShardPush::finish_step() {
  if (!running_) {
    CHECK(context_.endpoint.error(), "finish_step before begin_step");
    co_return base::fail(*context_.endpoint.error());
  }
  const auto scope = context_.phases.enter(Phase::exchange);
  overlapped_.reset();
  finishing_ = true;
  changed_.wake_all();
  auto done = co_await running_->join();
  running_.reset();
  DLOBD_CO_CHECK(done);
  if (holds_numbers()) {
    const auto renewed = master_.parameters().first(own_.size());
    std::copy(renewed.begin(), renewed.end(),
              context_.arena.parameters().begin() + static_cast<std::ptrdiff_t>(own_.begin));
  }
  weights_due_ = true;
  co_return StepOutcome::parameters_replaced;
}

base::Task<base::Result<void>> ShardPush::collect_weights() {
  if (!weights_due_) co_return base::Result<void>();
  const auto own = [this](const Piece& piece) { return piece.owner == rank_; };
  auto missing = static_cast<std::ptrdiff_t>(pieces_.size()) -
                 std::count_if(pieces_.begin(), pieces_.end(), own);
  for (; missing > 0; --missing) {
    auto arrival = co_await context_.endpoint.next(push::kind::weights);
    DLOBD_CO_CHECK(arrival);
    auto taken = take_weights(*arrival);
    DLOBD_CO_CHECK(taken);
  }
  weights_due_ = false;
  co_return base::Result<void>();
}

base::Result<void> ShardPush::take_weights(const transport::Arrival& arrival) {
  if (arrival.index >= pieces_.size() || pieces_[arrival.index].owner != arrival.source ||
      arrival.bytes != pieces_[arrival.index].range.size() * sizeof(float)) {
    return not_due(arrival, "new weights");
  }
  if (!holds_numbers()) return {};
  const compute::Range range = pieces_[arrival.index].range;
  const auto landed = staging_.parameters().subspan(range.begin, range.size());
  std::copy(landed.begin(), landed.end(),
            context_.arena.parameters().begin() + static_cast<std::ptrdiff_t>(range.begin));
  return {};
}

base::Task<base::Result<void>> ShardPush::settle(Settle what) {
  auto collected = co_await collect_weights();
  DLOBD_CO_CHECK(collected);
  if (what == Settle::parameters) co_return base::Result<void>();
  auto gathered = co_await momentum_.gather();
  co_return gathered;
}

}  // namespace dlobd::exchange
