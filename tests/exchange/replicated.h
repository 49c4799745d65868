// For designs in which every worker holds the same: the group against one oracle.
#pragma once

#include <gtest/gtest.h>

#include "exchange/group.h"

namespace dlobd::exchange::testing {

// After each step every worker computes with what `oracle` holds, and at the end it holds it.
template <class Oracle>
void expect_replicated(Group& group, Oracle oracle) {
  const GroupOptions& options = group.options();
  const std::size_t elements = group.rank(0).arena().size();
  for (std::uint64_t step = 0; step < options.steps; ++step) {
    for (int rank = 0; rank < options.workers; ++rank) {
      ASSERT_EQ(group.rank(rank).computed_with.at(step), oracle.parameters())
          << "rank " << rank << " step " << step;
    }
    oracle.step(step, all_gradients(options, group.views(), elements, step));
  }
  for (int rank = 0; rank < options.workers; ++rank) {
    ASSERT_EQ(group.rank(rank).held().parameters, oracle.parameters()) << "rank " << rank;
    ASSERT_EQ(group.rank(rank).held().momentum, oracle.momentum()) << "rank " << rank;
  }
}

}  // namespace dlobd::exchange::testing
