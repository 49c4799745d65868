// What both all-reduce algorithms send and receive through: the buffer that is reduced (registered,
// so that finished sums land in it), scratch memory for partial sums, and two numbered streams of
// messages to and from each peer. Belongs to the loop's thread.
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
       const char* what);

  // `elements` to rank `peer`, at `offset` elements into its target region.
  base::Task<base::Result<void>> write(int peer, std::size_t offset,
                                       std::span<const float> elements);
  // Rank `peer`'s next message, which must have `elements` elements.
  base::Task<base::Result<void>> from(int peer, std::size_t elements);

 private:
  transport::Endpoint& endpoint_;
  transport::Kind kind_;
  transport::RegionId target_;
  Inbox inbox_;
  std::vector<std::uint32_t> sent_;      // by peer
  std::vector<std::uint32_t> received_;  // by peer
};

struct Lanes {
  transport::Endpoint& endpoint;
  const compute::Kernels& kernels;
  std::span<float> data;
  std::span<float> scratch;
  Lane partial;   // into the peer's scratch
  Lane finished;  // into the peer's data

  [[nodiscard]] int rank() const { return endpoint.rank(); }
  [[nodiscard]] int world_size() const { return endpoint.world_size(); }
  [[nodiscard]] std::span<float> data_at(compute::Range range) const {
    return data.subspan(range.begin, range.size());
  }
  [[nodiscard]] std::span<float> scratch_at(std::size_t offset, std::size_t size) const {
    return scratch.subspan(offset, size);
  }
};

}  // namespace dlobd::exchange
