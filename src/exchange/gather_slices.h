// Every owner's slice to rank 0, counted apart: what a snapshot needs where each rank updates its
// own. The slices land where rank 0 itself never writes. Collective among the workers. Errors: the
// endpoint's; corrupt_data for a message that is not due. On the loop's thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "compute/arena.h"
#include "exchange/inbox.h"
#include "transport/endpoint.h"

namespace dlobd::exchange {

class GatherSlices {
 public:
  // `values` is registered as `target` on every worker; slices[r] is worker r's part of it.
  GatherSlices(transport::Endpoint& endpoint, std::span<float> values, transport::RegionId target,
               transport::Kind kind, std::vector<compute::Range> slices, std::string what);

  base::Task<base::Result<void>> gather();

 private:
  transport::Endpoint& endpoint_;
  std::span<float> values_;
  transport::RegionId target_;
  transport::Kind kind_;
  std::vector<compute::Range> slices_;
  Inbox inbox_;
  std::uint32_t gathered_ = 0;  // times
};

}  // namespace dlobd::exchange
