// What every replica asks of a batch before it computes.
#pragma once

#include "base/result.h"
#include "batches/source.h"
#include "compute/model.h"

namespace dlobd::compute {

// invalid_argument: an empty batch, samples of another shape, or a label that is no class.
base::Result<void> check_batch(const Model& model, const batches::Batch& batch);

}  // namespace dlobd::compute
