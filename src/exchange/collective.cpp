#include "exchange/collective.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "exchange/kinds.h"
#include "exchange/recursive_doubling.h"
#include "exchange/ring.h"

namespace dlobd::exchange {
namespace {

std::size_t most_doubled(CollectiveOptions options, int world_size, std::size_t largest) {
  switch (options.algorithm) {
    case Algorithm::ring: return 0;
    case Algorithm::recursive_doubling: return largest;
    case Algorithm::automatic:
      return std::min(largest, doubling_limit(world_size, compute::bytes_of(options.element)));
  }
  return 0;
}

// Doubling's slots first, the ring's behind them.
std::size_t scratch_size(std::size_t doubled, std::size_t largest, int world_size) {
  return doubling_scratch(doubled, world_size) +
         (largest > doubled ? ring_scratch(largest, world_size) : 0);
}

}  // namespace

// With a the cost of a message, b that of moving a byte and c that of adding one, n bytes take
//
//   doubling  R (a + n b) + A n c        R rounds, A of them adding
//   ring      2(N-1) a + 2(N-1)/N n b + (N-1)/N n c
//
// Equal at n = a (2(N-1) - R) / (R b + A c - (N-1)/N (2 b + c)). On the machines at hand (TCP
// between processes, 1 to 10 GB/s) a is about 20 KiB worth of b, and c a quarter of b.
std::size_t doubling_limit(int world_size, std::size_t element_bytes) {
  constexpr double kMessageBytes = 20 * 1024;
  constexpr double kAddingShare = 0.25;
  if (world_size < 2) return std::numeric_limits<std::size_t>::max();
  const Doubling pairs = doubling(world_size);
  const double n = world_size;
  const double folds = pairs.extras > 0 ? 1 : 0;
  const double rounds = pairs.rounds + 2 * folds;
  const double adding = pairs.rounds + folds;
  const double saved_messages = 2 * (n - 1) - rounds;
  const double more_bytes = rounds + adding * kAddingShare - (n - 1) / n * (2 + kAddingShare);
  if (saved_messages <= 0) return 0;
  const double limit_bytes = kMessageBytes * saved_messages / more_bytes;
  return static_cast<std::size_t>(limit_bytes / static_cast<double>(element_bytes));
}

Algorithm chosen(CollectiveOptions options, int world_size, std::size_t elements) {
  if (options.algorithm != Algorithm::automatic) return options.algorithm;
  return elements <= doubling_limit(world_size, compute::bytes_of(options.element))
             ? Algorithm::recursive_doubling
             : Algorithm::ring;
}

Collective::Collective(transport::Endpoint& endpoint, const compute::Kernels& kernels,
                       std::span<float> buffer, std::size_t largest, CollectiveOptions options,
                       compute::Backing backing)
    : options_(options),
      largest_(largest),
      largest_doubled_(most_doubled(options, endpoint.world_size(), largest)),
      buffer_(endpoint, kernels, options.element, buffer,
              scratch_size(largest_doubled_, largest, endpoint.world_size()), backing),
      lanes_{endpoint, kernels, buffer_,
             Lane(endpoint, kind::reduce, region::scratch, compute::bytes_of(options.element),
                  "a partial sum"),
             Lane(endpoint, kind::gather, region::gradients, compute::bytes_of(options.element),
                  "a finished sum")} {
  CHECK(options.segment_elements > 0, "segments of no elements");
}

base::Task<base::Result<void>> Collective::all_reduce(compute::Range range, float factor) {
  CHECK(range.size() <= largest_ && range.end <= buffer_.size(),
        "range {} to {}, buffer of {}, at most {} at once", range.begin, range.end, buffer_.size(),
        largest_);
  const int world_size = lanes_.world_size();
  if (world_size == 1) {
    lanes_.scale(range, factor);
    co_return base::Result<void>();
  }
  if (chosen(options_, world_size, range.size()) == Algorithm::recursive_doubling) {
    DoublingLayout layout;
    layout.slot = largest_doubled_;
    layout.odd = odd_;
    odd_ = !odd_;
    auto done = co_await recursive_doubling(lanes_, range, factor, layout);
    co_return done;
  }
  RingLayout layout;
  layout.segment = options_.segment_elements;
  layout.base = doubling_scratch(largest_doubled_, world_size);
  layout.slot = ring_slot(largest_, world_size);
  auto done = co_await ring_all_reduce(lanes_, range, factor, layout);
  co_return done;
}

}  // namespace dlobd::exchange
