#include <gtest/gtest.h>

#include "exchange/group.h"
#include "exchange/oracle_shard_push.h"

namespace dlobd::exchange::testing {

void expect_shard_push_oracle(Group& group) {
  const GroupOptions& options = group.options();
  const std::size_t elements = group.rank(0).arena().size();
  ShardPushOracle oracle(group.views(), initial_parameters(elements, options.seed), options.workers,
                         options.design.shard_push, options.optimizer);
  for (std::uint64_t step = 0; step < options.steps; ++step) {
    for (int rank = 0; rank < options.workers; ++rank) {
      ASSERT_EQ(group.rank(rank).computed_with.at(step), oracle.parameters())
          << "rank " << rank << " step " << step;
    }
    oracle.step(step, all_gradients(options, group.views(), elements, step));
    const auto settle = options.settle_after.find(step);
    if (settle == options.settle_after.end()) continue;
    oracle.settle(settle->second);
    for (int rank = 0; rank < options.workers; ++rank) {
      const Held& held = group.rank(rank).settled.at(step);
      ASSERT_EQ(held.parameters, oracle.parameters()) << "rank " << rank << " step " << step;
      ASSERT_EQ(held.momentum, oracle.momentum(rank)) << "rank " << rank << " step " << step;
    }
  }
  for (int rank = 0; rank < options.workers; ++rank) {
    ASSERT_EQ(group.rank(rank).held().parameters, oracle.parameters()) << "rank " << rank;
    ASSERT_EQ(group.rank(rank).held().momentum, oracle.momentum(rank)) << "rank " << rank;
  }
}

}  // namespace dlobd::exchange::testing
