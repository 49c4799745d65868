#include <gtest/gtest.h>

#include <map>

#include "exchange/group.h"
#include "exchange/oracle_tf_ps.h"

namespace dlobd::exchange::testing {
namespace {

void expect_workers(Group& group, const TfPsOracle& oracle) {
  const GroupOptions& options = group.options();
  for (int rank = 0; rank < options.workers; ++rank) {
    for (std::uint64_t step = options.first_step; step < options.steps; ++step) {
      const std::uint64_t i = step - options.first_step;
      ASSERT_EQ(group.rank(rank).computed_with.at(i), oracle.weights(rank, step))
          << "rank " << rank << " step " << step;
      if (options.design.tf_ps.synchronous()) continue;
      ASSERT_EQ(group.rank(rank).staleness.at(i), oracle.staleness(rank, step))
          << "rank " << rank << " step " << step;
    }
  }
}

// Rank 0 holds all when the workers have settled; the servers hold theirs at the end.
void expect_held(Group& group, const TfPsOracle& oracle) {
  const GroupOptions& options = group.options();
  std::size_t meeting = 0;
  for (const auto& [step, what] : options.settle_after) {
    if (step < options.first_step || step >= options.steps) continue;
    const Held& held = group.rank(0).settled.at(step);
    ASSERT_EQ(held.parameters, oracle.settled_parameters(meeting)) << "step " << step;
    if (what == Settle::parameters_and_optimizer) {
      ASSERT_EQ(held.momentum, oracle.settled_slots(meeting)) << "step " << step;
    }
    ++meeting;
  }
  for (std::size_t each = 0; each < group.views().size(); ++each) {
    const compute::ParameterView& view = group.views()[each];
    const int owner = options.workers + static_cast<int>(each) % options.design.servers;
    const Held held = group.rank(owner).held();
    for (std::size_t i = view.offset; i < view.offset + view.size; ++i) {
      ASSERT_EQ(held.parameters[i], oracle.parameters()[i]) << "rank " << owner;
      ASSERT_EQ(held.momentum[i], oracle.slots()[i]) << "rank " << owner;
    }
  }
}

}  // namespace

void expect_tf_ps_oracle(Group& group) {
  const GroupOptions& options = group.options();
  const std::size_t elements = group.rank(0).arena().size();
  TfPsOptions tf_ps = options.design.tf_ps;
  tf_ps.arrival_order =
      options.design.has_defect("arrival_order") && options.design.faithful("arrival_order");
  Values start = initial_parameters(elements, options.seed);
  Values slots = first_slots(options.optimizer, elements);
  if (options.start) {
    start = options.start->parameters;
    slots = options.start->momentum;
  }
  TfPsOracle oracle(group.views(), start, slots, options.layout(), tf_ps, options.optimizer,
                    options.first_step);
  std::map<std::uint64_t, std::vector<Values>> gradients;
  for (std::uint64_t step = options.first_step; step < options.steps; ++step) {
    gradients.emplace(step, all_gradients(options, group.views(), elements, step));
  }
  const TfPsOracle::Gradients given = [&gradients](int worker,
                                                   std::uint64_t step) -> const Values& {
    return gradients.at(step).at(static_cast<std::size_t>(worker));
  };
  for (int rank = options.workers; rank < options.layout().world_size(); ++rank) {
    const auto* server = dynamic_cast<const TfPsServer*>(&group.rank(rank).service());
    ASSERT_NE(server, nullptr);
    oracle.replay(rank, server->log(), given);
  }
  ASSERT_EQ(oracle.problem(), "");
  if (tf_ps.synchronous() && tf_ps.backup_workers == 0) {
    ASSERT_EQ(oracle.updates(), options.steps - options.first_step);
  }
  expect_workers(group, oracle);
  if (::testing::Test::HasFatalFailure()) return;
  expect_held(group, oracle);
}

}  // namespace dlobd::exchange::testing
