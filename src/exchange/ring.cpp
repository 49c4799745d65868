// n elements on N ranks in a ring, rank r sending to r+1 only. Chunk c is the c-th of N slices of
// the range, [floor(c n / N), floor((c+1) n / N)).
//
//   REDUCE  hop h = 0 .. N-2   r sends chunk r-h, receives chunk r-1-h into scratch slot h and
//                              adds its own: chunk c gathers g_c + g_(c+1) + ... + g_(c-1), in
//                              this order
//           after hop N-2      chunk r+1 is whole here; it is scaled once, here
//   GATHER  hop h = 0 .. N-2   r sends chunk r+1-h, receives chunk r-h straight into place
//
//   16 bits: every rank rounds each element once, as it sends it for the first time, and owes the
//            error: a partial sum, or, whoever is last, the whole sum, which it keeps as rounded.
//            Sums go round unscaled, and each rank scales what it decodes.
//
//   per rank: 2(N-1) chunks out and in; bytes out 4(2n - |chunk r+1| - |chunk r+2|), in
//   4(2n - |chunk r| - |chunk r+1|): 8n(N-1)/N where N divides n. A chunk travels as segments, one
//   message each, and a segment goes on to the next rank as soon as it is added, while the segments
//   behind it are still on their way: 2 (N-1) ceil(chunk/segment) messages.
//
// Why a write never hits memory in use. Segment s of chunk c is finished only after every rank has
// added its own part, so whoever holds a finished segment knows that all ranks have sent their
// partial sums of it and have read their scratch slots of it.
//   data      a finished segment lands in a place whose old content has been added and sent
//             before. Its new content is read by this rank's own forwarding only, until the call
//             returns.
//   scratch   the rank before this one writes slot h again in its next call, so after it has
//             received finished chunks: all but its own, chunk r. Those are exactly the chunks that
//             pass through the slots of this rank. So one slot per hop is enough, even when the
//             next range differs.
//   sources   the call returns when its own writes have been handed over.
// In 16 bits the same holds of the buffer from which elements are sent and into which they land.
#include "exchange/ring.h"

#include <algorithm>

#include "exchange/slices.h"

namespace dlobd::exchange {
namespace {

compute::Range chunk_of(compute::Range range, int world_size, int chunk) {
  const compute::Range part = slice(range.size(), world_size, wrap(chunk, world_size));
  return {range.begin + part.begin, range.begin + part.end};
}

compute::Range segment_of(compute::Range chunk, std::size_t segment, std::size_t index) {
  const std::size_t begin = chunk.begin + index * segment;
  return {begin, std::min(begin + segment, chunk.end)};
}

// One call on one rank.
class Ring {
 public:
  Ring(Lanes& lanes, compute::Range range, float factor, RingLayout layout)
      : lanes_(lanes),
        range_(range),
        factor_(factor),
        layout_(layout),
        hops_(lanes.world_size() - 1),
        next_(wrap(lanes.rank() + 1, lanes.world_size())),
        previous_(wrap(lanes.rank() - 1, lanes.world_size())),
        sends_(lanes.endpoint.loop()) {}

  base::Task<base::Result<void>> run() {
    lanes_.buffer.take_what_is_owed(range_);
    auto received = co_await receive_all();
    auto sent = co_await sends_.join();
    DLOBD_CO_CHECK(received);
    co_return sent;
  }

 private:
  [[nodiscard]] compute::Range chunk(int index) const {
    return chunk_of(range_, lanes_.world_size(), index);
  }
  [[nodiscard]] std::size_t slot_of(int hop, compute::Range chunk, compute::Range segment) const {
    return layout_.base + static_cast<std::size_t>(hop) * layout_.slot + segment.begin -
           chunk.begin;
  }
  void send_partial(int hop, compute::Range chunk, compute::Range segment) {
    sends_.spawn(
        lanes_.partial.write(next_, slot_of(hop, chunk, segment), lanes_.buffer.outgoing(segment)));
  }
  void send_finished(compute::Range segment, std::span<const std::byte> elements) {
    sends_.spawn(lanes_.finished.write(next_, segment.begin, elements));
  }

  base::Task<base::Result<void>> receive_all() {
    const compute::Range first = chunk(lanes_.rank());
    for (std::size_t i = 0; i < ring_messages(first.size(), layout_.segment); ++i) {
      send_partial(0, first, segment_of(first, layout_.segment, i));
    }
    for (int hop = 0; hop < hops_; ++hop) {
      auto reduced = co_await reduce(hop);
      DLOBD_CO_CHECK(reduced);
    }
    for (int hop = 0; hop < hops_; ++hop) {
      auto gathered = co_await gather(hop);
      DLOBD_CO_CHECK(gathered);
    }
    co_return base::Result<void>();
  }

  base::Task<base::Result<void>> reduce(int hop) {
    const compute::Range part = chunk(lanes_.rank() - 1 - hop);
    for (std::size_t i = 0; i < ring_messages(part.size(), layout_.segment); ++i) {
      const compute::Range segment = segment_of(part, layout_.segment, i);
      auto arrived = co_await lanes_.partial.from(previous_, segment.size());
      DLOBD_CO_CHECK(arrived);
      lanes_.buffer.add(segment, slot_of(hop, part, segment));
      if (hop + 1 < hops_) {
        send_partial(hop + 1, part, segment);
      } else {
        send_finished(segment, lanes_.finish(segment, factor_));
      }
    }
    co_return base::Result<void>();
  }

  base::Task<base::Result<void>> gather(int hop) {
    const compute::Range part = chunk(lanes_.rank() - hop);
    for (std::size_t i = 0; i < ring_messages(part.size(), layout_.segment); ++i) {
      const compute::Range segment = segment_of(part, layout_.segment, i);
      auto arrived = co_await lanes_.finished.from(previous_, segment.size());
      DLOBD_CO_CHECK(arrived);
      if (hop + 1 < hops_) send_finished(segment, lanes_.buffer.moved(segment));
      lanes_.land(segment, factor_);
    }
    co_return base::Result<void>();
  }

  Lanes& lanes_;
  compute::Range range_;
  float factor_;
  RingLayout layout_;
  int hops_;
  int next_;
  int previous_;
  base::TaskGroup sends_;
};

}  // namespace

std::size_t ring_slot(std::size_t largest, int world_size) {
  const auto n = static_cast<std::size_t>(world_size);
  return (largest + n - 1) / n;
}

std::size_t ring_scratch(std::size_t largest, int world_size) {
  return ring_slot(largest, world_size) * static_cast<std::size_t>(world_size - 1);
}

std::size_t ring_messages(std::size_t chunk, std::size_t segment) {
  return std::max<std::size_t>(1, (chunk + segment - 1) / segment);
}

base::Task<base::Result<void>> ring_all_reduce(Lanes& lanes, compute::Range range, float factor,
                                               RingLayout layout) {
  Ring ring(lanes, range, factor, layout);
  auto done = co_await ring.run();
  co_return done;
}

}  // namespace dlobd::exchange
