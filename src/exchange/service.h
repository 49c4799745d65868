// The life of a rank that owns no replica: a parameter server, BigDL's driver. It registers its
// regions in its constructor, like an Exchange, and serves until every worker has taken its leave
// (Exchange::leave). Its context's arena and optimizer have the model's full size; what it does not
// own is never touched, so takes no memory. Errors: those of the endpoint. Belongs to the loop's
// thread.
#pragma once

#include <cstdint>

#include "base/loop.h"
#include "base/result.h"

namespace dlobd::exchange {

class Service {
 public:
  virtual ~Service() = default;
  // `first_step`: the step with which the workers begin; above 0 after a resume.
  virtual base::Task<base::Result<void>> serve(std::uint64_t first_step) = 0;
};

}  // namespace dlobd::exchange
