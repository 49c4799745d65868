#include "compute/check_batch.h"

#include <fmt/format.h>

namespace dlobd::compute {

base::Result<void> check_batch(const Model& model, const batches::Batch& batch) {
  const auto kind = base::ErrorKind::invalid_argument;
  if (batch.size() == 0) return base::fail(kind, "a batch has no samples");
  if (batch.shape != model.shape) {
    return base::fail(
        kind, fmt::format("the samples of a batch have another shape than the model: {}x{}x{} for "
                          "{} on {}x{}x{}",
                          batch.shape.channels, batch.shape.height, batch.shape.width, model.name,
                          model.shape.channels, model.shape.height, model.shape.width));
  }
  if (batch.pixels.size() != batch.size() * batch.shape.bytes()) {
    return base::fail(kind,
                      fmt::format("a batch has another number of pixels than its samples: {} for "
                                  "{} samples of {} bytes",
                                  batch.pixels.size(), batch.size(), batch.shape.bytes()));
  }
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (batch.labels[i] < 0 || batch.labels[i] >= model.classes) {
      return base::fail(kind, fmt::format("a label is no class of the model: label {} of sample {} "
                                          "in the batch, {} classes",
                                          batch.labels[i], i, model.classes));
    }
  }
  return {};
}

}  // namespace dlobd::compute
