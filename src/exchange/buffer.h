// Memory of an exchange's own, page-aligned and registrable like the arena's: an arena of one view.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "compute/arena.h"

namespace dlobd::exchange {

// `size` floats in its parameters(), at least one; as many in its gradients(), which take no memory
// until they are touched.
inline compute::ParameterArena make_buffer(const std::string& name, std::size_t size,
                                           compute::Backing backing) {
  compute::ParameterSpec spec;
  spec.name = name;
  spec.shape = {static_cast<std::int64_t>(std::max<std::size_t>(1, size))};
  const std::vector<compute::ParameterSpec> specs{spec};
  return compute::ParameterArena(specs, 0, backing);
}

}  // namespace dlobd::exchange
