// n elements on N ranks; K = floor(log2 N), M = 2^K, X = N - M extras.
//
//   FOLD IN   extra M+i sends its n elements to rank i, which adds them (i < X)
//   DOUBLE    round k = 0 .. K-1, ranks below M: r and r xor 2^k send each other everything they
//             have and add it. Addition commutes, so both hold the same bits.
//   FOLD OUT  rank i sends the result to extra M+i
//
//   messages per rank, out as in: extras 1; ranks below X  K+1; the others K; each of 4n bytes.
//   N = 2 is one message each way: no all-reduce can do with less.
//
//   16 bits: whoever sends rounds, and goes on with what it has sent, so that both of a pair add
//   the same two numbers. Ranks that hold the same sum round it alike: the first of them owes the
//   error. Where there are extras the result is rounded as well, on all ranks, so that all have the
//   same. Every rank scales it by itself.
//
// Why a write never hits memory in use.
//   scratch   one slot per round, twice. A peer p writes its slot of round k at r again in a later
//             call. p may be a call ahead: it has r's message of round k in call j, but r sent that
//             before it took p's own. It cannot be two ahead: to finish call j+1 it needs r's
//             message of round k in call j+1, which r sends after it has finished call j, and so
//             has taken everything of call j. So calls alternate between two sets of slots. An
//             extra starts call j+1 after it has received the result of call j, which rank i sent
//             after adding what the extra had folded in: one slot is enough for that.
//   data      only the result lands in an extra's data, after the extra's own values were taken and
//             before the extra's call returns.
//   sources   what is being sent is changed only after the write has been handed over.
#include "exchange/recursive_doubling.h"

namespace dlobd::exchange {
namespace {

struct Slots {
  DoublingLayout layout;
  Doubling pairs;

  [[nodiscard]] std::size_t of_round(int round) const {
    const int index = (layout.odd ? pairs.rounds : 0) + round;
    return layout.base + static_cast<std::size_t>(index) * layout.slot;
  }
  [[nodiscard]] std::size_t fold() const {
    return layout.base + static_cast<std::size_t>(2 * pairs.rounds) * layout.slot;
  }
};

// Adds what `peer` has written into `slot`.
base::Task<base::Result<void>> take(Lanes& lanes, int peer, std::size_t slot,
                                    compute::Range range) {
  auto arrived = co_await lanes.partial.from(peer, range.size());
  DLOBD_CO_CHECK(arrived);
  lanes.buffer.add(range, slot);
  co_return base::Result<void>();
}

base::Task<base::Result<void>> as_extra(Lanes& lanes, compute::Range range, float factor,
                                        Slots slots) {
  const int partner = lanes.rank() - slots.pairs.ranks;
  auto sent = co_await lanes.partial.write(partner, slots.fold(), lanes.buffer.outgoing(range));
  DLOBD_CO_CHECK(sent);
  auto result = co_await lanes.finished.from(partner, range.size());
  DLOBD_CO_CHECK(result);
  lanes.land(range, factor);
  co_return result;
}

}  // namespace

Doubling doubling(int world_size) {
  Doubling pairs;
  while (pairs.ranks * 2 <= world_size) {
    pairs.ranks *= 2;
    ++pairs.rounds;
  }
  pairs.extras = world_size - pairs.ranks;
  return pairs;
}

std::size_t doubling_scratch(std::size_t largest, int world_size) {
  const Doubling pairs = doubling(world_size);
  return largest * static_cast<std::size_t>(2 * pairs.rounds + (pairs.extras > 0 ? 1 : 0));
}

base::Task<base::Result<void>> recursive_doubling(Lanes& lanes, compute::Range range, float factor,
                                                  DoublingLayout layout) {
  const Slots slots{layout, doubling(lanes.world_size())};
  const int rank = lanes.rank();
  lanes.buffer.take_what_is_owed(range);
  if (rank >= slots.pairs.ranks) {
    auto done = co_await as_extra(lanes, range, factor, slots);
    co_return done;
  }
  const int extra = rank + slots.pairs.ranks;
  const bool has_extra = rank < slots.pairs.extras;
  if (has_extra) {
    auto folded = co_await take(lanes, extra, slots.fold(), range);
    DLOBD_CO_CHECK(folded);
  }
  for (int round = 0; round < slots.pairs.rounds; ++round) {
    const int partner = rank ^ (1 << round);
    const std::size_t slot = slots.of_round(round);
    // Ranks that agree in all but the lowest `round` bits hold the same: the first of them owes.
    const bool owed_here = rank % (1 << round) == 0;
    auto sent =
        co_await lanes.partial.write(partner, slot, lanes.buffer.outgoing(range, owed_here));
    DLOBD_CO_CHECK(sent);
    auto taken = co_await take(lanes, partner, slot, range);
    DLOBD_CO_CHECK(taken);
  }
  if (slots.pairs.extras == 0) {
    lanes.scale(range, factor);
    co_return base::Result<void>();
  }
  const auto result = lanes.finish(range, factor, rank == 0);
  if (has_extra) {
    auto sent = co_await lanes.finished.write(extra, range.begin, result);
    DLOBD_CO_CHECK(sent);
  }
  co_return base::Result<void>();
}

}  // namespace dlobd::exchange
