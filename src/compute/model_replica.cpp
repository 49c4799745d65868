#include "compute/model_replica.h"

#include <fmt/format.h>

namespace dlobd::compute {

base::Result<void> ModelReplica::set_generator_state(const std::string& state) {
  if (state.empty()) return {};
  return base::fail(base::ErrorKind::invalid_argument,
                    fmt::format("generator state for a model without one: {} bytes", state.size()));
}

}  // namespace dlobd::compute
