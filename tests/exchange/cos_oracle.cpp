// CaffeOnSpark against its oracle, which is told in which order each rank added its peers'
// gradients.
#include <gtest/gtest.h>

#include "exchange/group.h"

namespace dlobd::exchange::testing {
namespace {

std::vector<std::vector<int>> additions_of(Group& group, std::uint64_t step) {
  std::vector<std::vector<int>> orders;
  for (int rank = 0; rank < group.options().workers; ++rank) {
    orders.push_back(group.rank(rank).additions.at(step));
  }
  return orders;
}

// The ranks r+1, r+2, ...
std::vector<std::vector<int>> rotations(int workers) {
  std::vector<std::vector<int>> orders(static_cast<std::size_t>(workers));
  for (int rank = 0; rank < workers; ++rank) {
    for (int i = 1; i < workers; ++i) {
      orders[static_cast<std::size_t>(rank)].push_back((rank + i) % workers);
    }
  }
  return orders;
}

// Over one-sided writes, an arena that is not gathered may hold next step's weights already, where
// others own them.
void expect_settled(const Held& held, const CosOracle& oracle, const CosDefects& defects,
                    int rank) {
  const Values& expected = oracle.parameters(rank);
  const Values next = oracle.next_weights();
  ASSERT_EQ(held.parameters.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const bool early = defects.rdma && defects.snapshot_ungathered && held.parameters[i] == next[i];
    if (early) continue;
    ASSERT_EQ(held.parameters[i], expected[i]) << "rank " << rank << " element " << i;
  }
  ASSERT_EQ(held.momentum, oracle.momentum(rank)) << "rank " << rank;
}

}  // namespace

void expect_cos_oracle(Group& group) {
  const GroupOptions& options = group.options();
  const CosDefects defects = defects_of(options.design);
  const std::size_t elements = group.rank(0).arena().size();
  CosOracle oracle(group.views(), initial_parameters(elements, options.seed), options.workers,
                   defects, options.optimizer, options.design.wire_element);
  for (std::uint64_t step = 0; step < options.steps; ++step) {
    const Values weights = oracle.next_weights();
    for (int rank = 0; rank < options.workers; ++rank) {
      ASSERT_EQ(group.rank(rank).computed_with.at(step), weights)
          << "rank " << rank << " step " << step;
    }
    const auto orders = additions_of(group, step);
    if (!defects.arrival_order) {
      ASSERT_EQ(orders, rotations(options.workers));
    }
    oracle.step(step, all_gradients(options, group.views(), elements, step), orders);
    const auto settle = options.settle_after.find(step);
    if (settle == options.settle_after.end()) continue;
    oracle.settle(settle->second);
    for (int rank = 0; rank < options.workers; ++rank) {
      SCOPED_TRACE(::testing::Message() << "settled after step " << step);
      expect_settled(group.rank(rank).settled.at(step), oracle, defects, rank);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
  for (int rank = 0; rank < options.workers; ++rank) {
    ASSERT_EQ(group.rank(rank).held().parameters, oracle.parameters(rank)) << "rank " << rank;
    ASSERT_EQ(group.rank(rank).held().momentum, oracle.momentum(rank)) << "rank " << rank;
  }
}

}  // namespace dlobd::exchange::testing
