// TorchModel by libtorch: the network bound to an arena's memory, the loss, the device. On a GPU,
// parameters and gradients pass through pinned host memory.
#pragma once

#include <memory>

#include "compute/torch_model.h"

namespace dlobd::compute {

// Throws what libtorch throws: no such device, no memory.
std::unique_ptr<TorchModel> make_aten_model(const TorchModelSpec& spec);

}  // namespace dlobd::compute
