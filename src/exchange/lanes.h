// What both all-reduce algorithms send and receive through: the buffer that is reduced, with the
// form in which it travels, and two numbered streams of messages to and from each peer. Belongs to
// the loop's thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "compute/arena.h"
#include "compute/kernels.h"
#include "exchange/inbox.h"
#include "exchange/wire_buffer.h"
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
  WireBuffer& buffer;
  Lane partial;   // into the peer's scratch memory
  Lane finished;  // into the peer's buffer, as it travels

  [[nodiscard]] int rank() const { return endpoint.rank(); }
  [[nodiscard]] int world_size() const { return endpoint.world_size(); }

  // The buffer holds the whole sum: how it travels to the others; afterwards the buffer holds it
  // times `factor`, and so do they.
  [[nodiscard]] std::span<const std::byte> finish(compute::Range range, float factor,
                                                  bool owed_here = true) const;
  // A sum that another rank has finished is here: the buffer = it times `factor`.
  void land(compute::Range range, float factor) const;
  void scale(compute::Range range, float factor) const;
};

}  // namespace dlobd::exchange
