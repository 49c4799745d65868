#include <gtest/gtest.h>

#include "exchange/group.h"
#include "exchange/oracle_bigdl.h"

namespace dlobd::exchange::testing {
namespace {

using Pass = BigDlOracle::Pass;

BigDlDefects bigdl_defects(const stacks::Design& design) {
  BigDlDefects defects;
  defects.truncate_each_add = design.faithful("truncate_each_add");
  defects.lookup_per_block = design.faithful("lookup_per_block");
  defects.momentum_not_saved = design.faithful("momentum_not_saved");
  return defects;
}

}  // namespace

void expect_bigdl_oracle(Group& group) {
  const GroupOptions& options = group.options();
  const std::size_t elements = group.rank(0).arena().size();
  BigDlOracle oracle(group.views(), initial_parameters(elements, options.seed), options.workers,
                     bigdl_defects(options.design), options.optimizer);
  for (std::uint64_t step = 0; step < options.steps; ++step) {
    const Values weights = oracle.next_weights();
    std::vector<Pass> passes;
    int finished = 0;
    for (int rank = 0; rank < options.workers; ++rank) {
      const Member& member = group.rank(rank);
      passes.push_back(member.passes.at(step));
      if (passes.back() == Pass::finished) ++finished;
      if (passes.back() != Pass::never_begun) {
        ASSERT_EQ(member.computed_with.at(step), weights) << "rank " << rank << " step " << step;
      } else if (step == 0 || member.passes.at(step - 1) == Pass::finished) {
        passes.back() = Pass::cut_off;  // no pass had the arena when the weights came
      }
    }
    const BigDlDrop& drop = options.design.bigdl_drop;
    const bool discarded = finished < options.workers * (1.0 - drop.most);
    oracle.step(step, all_gradients(options, group.views(), elements, step), passes, discarded);
    const auto settle = options.settle_after.find(step);
    if (settle == options.settle_after.end()) continue;
    oracle.settle(settle->second);
    for (int rank = 0; rank < options.workers; ++rank) {
      const Held& held = group.rank(rank).settled.at(step);
      ASSERT_EQ(held.parameters, oracle.parameters(rank)) << "rank " << rank << " step " << step;
      ASSERT_EQ(held.momentum, oracle.momentum(rank)) << "rank " << rank << " step " << step;
    }
  }
  for (int rank = 0; rank < options.workers; ++rank) {
    ASSERT_EQ(group.rank(rank).held().parameters, oracle.parameters(rank)) << "rank " << rank;
    ASSERT_EQ(group.rank(rank).held().momentum, oracle.momentum(rank)) << "rank " << rank;
  }
}

}  // namespace dlobd::exchange::testing
