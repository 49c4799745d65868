#include "exchange/oracle_tf_ring.h"

#include <utility>

#include "exchange/oracle_wire.h"

namespace dlobd::exchange {

TfRingOracle::TfRingOracle(std::vector<compute::ParameterView> views, const Values& parameters,
                           int world_size, TfRingOptions options, OptimizerSettings settings)
    : views_(std::move(views)),
      world_size_(world_size),
      options_(options),
      settings_(std::move(settings)),
      parameters_(parameters),
      momentum_(first_slots(settings_, parameters.size())),
      owed_(static_cast<std::size_t>(world_size), Values(parameters.size())) {}

float TfRingOracle::round_the_ring(const std::vector<Values>& gradients, std::size_t i, int first) {
  if (options_.element != compute::WireElement::float32 && world_size_ > 1) {
    return rounded_round_the_ring(options_.element, gradients, i, first, owed_);
  }
  float sum = gradients[static_cast<std::size_t>(first)][i];
  for (int hop = 1; hop < world_size_; ++hop) {
    sum += gradients[static_cast<std::size_t>((first + hop) % world_size_)][i];
  }
  return sum;
}

void TfRingOracle::step(std::uint64_t step, const std::vector<Values>& gradients) {
  Values mean(parameters_.size());
  for (const Bucket& pack : tf_packs(views_, options_)) {
    const TfSections sections(pack.range.size(), world_size_, options_);
    for (int section = 0; section < sections.count; ++section) {
      const compute::Range within = sections.at(section);
      for (std::size_t i = pack.range.begin + within.begin; i < pack.range.begin + within.end;
           ++i) {
        // From the chunk's own rank to the one before it.
        const int first = section / sections.subdivisions;
        mean[i] = round_the_ring(gradients, i, first) / static_cast<float>(world_size_);
      }
    }
  }
  plain_update(views_, settings_, step, {0, mean.size()}, parameters_, mean, momentum_);
}

}  // namespace dlobd::exchange
