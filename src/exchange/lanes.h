// What both all-reduce algorithms send and receive through: the buffer that is reduced, the form in
// which it travels, scratch memory for partial sums, and two numbered streams of messages to and
// from each peer. Belongs to the loop's thread.
//
// As float32 the buffer travels as it is: it is registered, and finished sums land in it. As one of
// 16 bits, every element is rounded into a second buffer, from which it is sent and into which
// finished sums land; all ranks decode the same bits. Whoever rounds owes what that cost, and adds
// it to the same element of its next call (error feedback, Residuals).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "compute/arena.h"
#include "compute/kernels.h"
#include "exchange/inbox.h"
#include "transport/endpoint.h"

namespace dlobd::exchange {

// The messages of one kind: numbered from 0 for each pair of ranks, so that each end can check that
// nothing was lost, doubled or reordered.
class Lane {
 public:
  Lane(transport::Endpoint& endpoint, transport::Kind kind, transport::RegionId target,
       std::size_t element_bytes, const char* what);

  // `elements`, as they travel, to rank `peer`, at `offset` elements into its target region.
  base::Task<base::Result<void>> write(int peer, std::size_t offset,
                                       std::span<const std::byte> elements);
  // Rank `peer`'s next message, which must have `elements` elements.
  base::Task<base::Result<void>> from(int peer, std::size_t elements);

 private:
  transport::Endpoint& endpoint_;
  transport::Kind kind_;
  transport::RegionId target_;
  std::size_t element_bytes_;
  Inbox inbox_;
  std::vector<std::uint32_t> sent_;      // by peer
  std::vector<std::uint32_t> received_;  // by peer
};

struct Lanes {
  transport::Endpoint& endpoint;
  const compute::Kernels& kernels;
  compute::WireElement element;
  std::span<float> data;
  std::span<std::byte> moved;    // data as it travels; float32: data itself
  std::span<std::byte> scratch;  // partial sums as they travel
  std::span<float> owed;         // by this rank; float32: empty
  Lane partial;                  // into the peer's scratch
  Lane finished;                 // into the peer's moved

  [[nodiscard]] int rank() const { return endpoint.rank(); }
  [[nodiscard]] int world_size() const { return endpoint.world_size(); }
  [[nodiscard]] std::span<const std::byte> moved_at(compute::Range range) const {
    return part(moved, range.begin, range.size());
  }

  // Before anything of a call: what this rank owes joins its own values.
  void take_what_is_owed(compute::Range range) const;
  // data as it travels from here, rounded; `owed_here`: by this rank.
  [[nodiscard]] std::span<const std::byte> outgoing(compute::Range range,
                                                    bool owed_here = true) const;
  // data += what has arrived at `slot` elements into the scratch memory.
  void add(compute::Range range, std::size_t slot) const;
  // data holds the whole sum: how it travels to the others; afterwards data holds it times
  // `factor`, and so do they.
  [[nodiscard]] std::span<const std::byte> finish(compute::Range range, float factor,
                                                  bool owed_here = true) const;
  // A sum that another rank has finished is here: data = it times `factor`.
  void land(compute::Range range, float factor) const;
  void scale(compute::Range range, float factor) const;

 private:
  [[nodiscard]] bool rounds() const { return element != compute::WireElement::float32; }
  [[nodiscard]] std::span<std::byte> part(std::span<std::byte> whole, std::size_t first,
                                          std::size_t size) const {
    return whole.subspan(first * compute::bytes_of(element), size * compute::bytes_of(element));
  }
  [[nodiscard]] std::span<float> data_at(compute::Range range) const {
    return data.subspan(range.begin, range.size());
  }
};

}  // namespace dlobd::exchange
