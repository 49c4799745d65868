// What a rank still owes: its gradients are rounded on their way, and what that costs an element is
// added to its gradient of the next step (error feedback). Part of the trajectory, so a snapshot
// takes those of all ranks: gather() brings them to rank 0, counted apart, each into a place of its
// own: 4PN bytes there, which a provider that pins memory takes from the start, others at the
// first. For designs without servers. The constructor registers a region. Errors: the endpoint's;
// corrupt_data for a message that is not due. On the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/loop.h"
#include "base/result.h"
#include "compute/arena.h"
#include "exchange/inbox.h"
#include "transport/endpoint.h"

namespace dlobd::exchange {

class Residuals {
 public:
  Residuals(transport::Endpoint& endpoint, std::size_t elements, compute::Backing backing);

  [[nodiscard]] std::span<float> own() const { return all().first(elements_); }
  // Own first; on rank 0 then those of ranks 1, 2, ... as they were gathered last.
  [[nodiscard]] std::span<float> all() const { return memory_.parameters(); }
  // Collective.
  base::Task<base::Result<void>> gather();

 private:
  transport::Endpoint& endpoint_;
  std::size_t elements_;
  compute::ParameterArena memory_;
  Inbox inbox_;
  std::uint32_t gathered_ = 0;  // times
};

}  // namespace dlobd::exchange
