#include "exchange/oracle_tf_ring.h"

#include <utility>

namespace dlobd::exchange {

TfRingOracle::TfRingOracle(std::vector<compute::ParameterView> views, const Values& parameters,
                           int world_size, TfRingOptions options, OptimizerSettings settings)
    : views_(std::move(views)),
      world_size_(world_size),
      options_(options),
      settings_(std::move(settings)),
      parameters_(parameters),
      momentum_(first_slots(settings_, parameters.size())) {}

void TfRingOracle::step(std::uint64_t step, const std::vector<Values>& gradients) {
  Values mean(parameters_.size());
  for (const Bucket& pack : tf_packs(views_, options_)) {
    const TfSections sections(pack.range.size(), world_size_, options_);
    for (int section = 0; section < sections.count; ++section) {
      const compute::Range within = sections.at(section);
      for (std::size_t i = pack.range.begin + within.begin; i < pack.range.begin + within.end;
           ++i) {
        // Round the ring, from the chunk's own rank to the one before it.
        const int first = section / sections.subdivisions;
        mean[i] = gradients[static_cast<std::size_t>(first)][i];
        for (int hop = 1; hop < world_size_; ++hop) {
          mean[i] += gradients[static_cast<std::size_t>((first + hop) % world_size_)][i];
        }
        mean[i] /= static_cast<float>(world_size_);
      }
    }
  }
  plain_update(views_, settings_, step, {0, mean.size()}, parameters_, mean, momentum_);
}

}  // namespace dlobd::exchange
