// What BigDL's workers and driver say to each other: small control messages of one size, and blocks
// of 16-bit elements that an owner writes into a slot of the worker that has asked for them.
// bigdl_blocks.cpp shows who says what when. A message that makes no sense is corrupt_data and
// names its sender.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "compute/arena.h"
#include "exchange/buffer.h"
#include "exchange/exchange.h"
#include "transport/endpoint.h"

namespace dlobd::exchange::bigdl {

namespace kind {
inline constexpr transport::Kind to_driver = 0;  // registrations, results, look-ups, leaves
inline constexpr transport::Kind launch = 1;     // of a task, from the driver
inline constexpr transport::Kind request = 2;    // of a block, to its owner; the driver's farewell
inline constexpr transport::Kind answer = 3;  // a location from the driver, a block from its owner
inline constexpr transport::Kind settled_parameters = 4;
inline constexpr transport::Kind settled_momentum = 5;
}  // namespace kind

namespace region {
inline constexpr transport::RegionId parameters = 0;
inline constexpr transport::RegionId momentum = 1;
inline constexpr transport::RegionId blocks = 2;  // what the others fetch
inline constexpr transport::RegionId slots = 3;   // where fetched blocks land
}  // namespace region

// Blocks that a worker fetches at once, at most: the size of BigDL's pool.
inline constexpr int kFetchesAtOnce = 4;

enum class Sort : std::uint32_t { weights, gradients };

struct Block {
  Sort sort = Sort::weights;
  int slice = 0;  // of the parameters; its owner's rank
  int from = 0;   // who holds the block: of weights the owner, of gradients who has computed them
  friend auto operator<=>(const Block&, const Block&) = default;
};

enum class Say : std::uint32_t {
  registration,  // to the driver: I hold `block`
  result,        // my task of job `value` is done; of job 1: in `amount` ns, or it was cut off
  last_result,   // likewise, and I want no further job
  look_up,       // where is `block`?
  leave,         // I want no job at all
  location,      // from the driver: rank `value` holds `block`
  launch,        // a task of job `value`; 1: within `amount` ns; 2: `amount` workers have finished
  fetch,         // to a worker: give me `block`
  farewell,      // from the driver: nobody wants anything any more
};

// Of a launch of job 1: takes as long as it takes. Of a result of job 1: was cut off.
inline constexpr std::int64_t kNoTime = -1;

// About a block or about an amount, never both.
struct Control {
  Say say = Say::leave;
  Block block;
  int value = 0;
  std::int64_t amount = 0;  // of a launch or a result
};

// Of every control message.
inline constexpr std::size_t kControlBytes = 5 * sizeof(std::uint32_t);

base::Result<Control> read_control(const transport::Arrival& arrival);

// Sends one. `index`: the step, or the rank that the block is about.
base::Task<base::Result<void>> say(transport::Endpoint& endpoint, int peer, transport::Kind kind,
                                   std::uint32_t index, Control control,
                                   transport::Traffic traffic = transport::Traffic::control);

// The 16-bit blocks of one worker: its own, and one slot for each peer's.
class BlockMemory {
 public:
  explicit BlockMemory(const Context& context);  // registers both regions

  [[nodiscard]] compute::Range slice_of(int rank) const;
  [[nodiscard]] std::vector<compute::Range> slices() const;  // by rank
  // One of this worker's.
  [[nodiscard]] std::span<std::uint16_t> own(Block block) const;
  // Where `peer`'s block lands, of `elements` elements. The own slot is free for other use.
  [[nodiscard]] std::span<std::uint16_t> slot(int peer, std::size_t elements) const;
  // Of the slot of `peer`'s block, on every worker.
  [[nodiscard]] std::uint64_t slot_offset_bytes(int peer) const;

 private:
  int rank_;
  int workers_;
  std::size_t elements_;
  std::size_t slot_elements_;
  compute::ParameterArena blocks_;
  compute::ParameterArena slots_;
};

}  // namespace dlobd::exchange::bigdl
