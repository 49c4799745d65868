// The designs that the suites of this folder run, by name.
#pragma once

#include <string>
#include <vector>

#include "exchange/group.h"

namespace dlobd::exchange::testing {

struct NamedDesign {
  std::string name;
  stacks::Design design;
};

inline stacks::Design cos_design(bool snapshot, bool momentum, bool optimizer) {
  const auto word = [](bool faithful) { return faithful ? "faithful" : "fixed"; };
  return design_of("caffeonspark", "",
                   {{"snapshot_ungathered", word(snapshot)},
                    {"momentum_own_slice", word(momentum)},
                    {"optimizer_full", word(optimizer)}});
}

// Segments are short, so that a small model's chunk is several messages.
inline stacks::Design allreduce_design(Algorithm algorithm, std::size_t bucket_bytes) {
  stacks::Design design = design_of("allreduce");
  design.all_reduce.bucket_bytes = bucket_bytes;
  design.all_reduce.collective.algorithm = algorithm;
  design.all_reduce.collective.segment_elements = 7;
  return design;
}

inline std::vector<NamedDesign> all_designs() {
  std::vector<NamedDesign> all;
  all.push_back({"cos_faithful", cos_design(true, true, true)});
  all.push_back({"cos_fixed", cos_design(false, false, false)});
  all.push_back({"cos_snapshot_gathered", cos_design(false, true, true)});
  all.push_back({"cos_momentum_gathered", cos_design(true, false, true)});
  all.push_back({"cos_optimizer_own", cos_design(true, true, false)});
  all.push_back({"cos_optimizer_full", cos_design(false, false, true)});
  all.push_back({"ring_one_bucket", allreduce_design(Algorithm::ring, 1 << 20)});
  all.push_back({"ring_many_buckets", allreduce_design(Algorithm::ring, 64)});
  all.push_back({"doubling_one_bucket", allreduce_design(Algorithm::recursive_doubling, 1 << 20)});
  all.push_back({"doubling_many_buckets", allreduce_design(Algorithm::recursive_doubling, 64)});
  return all;
}

inline GroupOptions group_options(const stacks::Design& design, int world_size,
                                  std::size_t elements, std::uint64_t seed) {
  GroupOptions options;
  options.design = design;
  options.world_size = world_size;
  options.parameters = uneven_parameters(elements);
  options.seed = seed;
  options.compute = std::chrono::microseconds(40);
  options.settle_after = {{0, Settle::parameters}, {1, Settle::parameters_and_optimizer}};
  options.optimizer.learning_rate.base = 0.1;
  return options;
}

}  // namespace dlobd::exchange::testing
