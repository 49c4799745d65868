// What 16 bits leave out of a gradient is not lost: it comes with the next.
#include <gtest/gtest.h>

#include <cmath>

#include "exchange/designs.h"
#include "exchange/group.h"
#include "exchange/oracle_wire.h"
#include "seeds.h"

namespace dlobd::exchange::testing {
namespace {

constexpr std::uint64_t kSteps = 60;
constexpr std::size_t kElements = 37;

// Every step the same gradients and w -= g, so that the weights say what all steps together moved.
GroupOptions constant_options(const stacks::Design& design, int workers) {
  GroupOptions options = group_options(design, workers, kElements, 7);
  options.steps = kSteps;
  options.constant = true;
  options.settle_after = {{kSteps - 1, Settle::parameters_and_optimizer}};
  options.optimizer.learning_rate.base = 1;
  options.optimizer.momentum = 0;
  options.optimizer.weight_decay = 0;
  return options;
}

// By element, of rank 0: how far a step has moved the weights, in the mean of all steps.
std::vector<double> moved_in_a_step(const stacks::Design& design, int workers) {
  const GroupOptions options = constant_options(design, workers);
  base::VirtualLoop loop;
  Group group(loop, options, simulated_endpoints(loop, workers, 1));
  group.run();
  expect_oracle(group);
  const Values start = initial_parameters(kElements, options.seed);
  const Values end = group.rank(0).settled.at(kSteps - 1).parameters;
  std::vector<double> moved;
  for (const compute::ParameterView& view : group.views()) {
    for (std::size_t i = view.offset; i < view.offset + view.size; ++i) {
      moved.push_back((static_cast<double>(start[i]) - end[i]) /
                      (static_cast<double>(kSteps) * view.lr_multiplier));
    }
  }
  return moved;
}

double farthest(const std::vector<double>& from, const std::vector<double>& to) {
  double most = 0;
  for (std::size_t i = 0; i < from.size(); ++i) most = std::max(most, std::abs(from[i] - to[i]));
  return most;
}

// What a step would move, were each rank's part rounded and the rest forgotten.
std::vector<double> moved_if_forgotten(const stacks::Design& design, int workers) {
  const GroupOptions options = constant_options(design, workers);
  const compute::ParameterArena arena(options.parameters);
  std::vector<double> moved(kElements);
  for (const Values& each : all_gradients(options, arena.views(), kElements, 0)) {
    for (std::size_t i = 0; i < kElements; ++i) {
      moved[i] += plain_rounded(design.wire_element, each[i]) / static_cast<double>(workers);
    }
  }
  return moved;
}

class ErrorFeedback : public ::testing::TestWithParam<compute::WireElement> {};

// A step's mean over all steps comes close to the true one, ten times as close as a single
// rounding does.
TEST_P(ErrorFeedback, BringsWhatRoundingLeavesOut) {
  const std::vector<std::pair<stacks::Design, const char*>> designs = {
      {cos_design(false, false, false), "caffeonspark"},
      {allreduce_design(Algorithm::ring, 1 << 20), "ring"},
      {allreduce_design(Algorithm::recursive_doubling, 1 << 20), "doubling"},
      {tf_ring_design(true, true), "tf_ring"},
      {tf_ring_design(false, true), "tf_ring in packs"},
      {improved_design("tensorflowonspark", true), "tensorflowonspark, improved"}};
  for (const auto& [plain, title] : designs) {
    for (const int workers : sizes({2, 3, 5}, {3})) {
      SCOPED_TRACE(::testing::Message() << title << ", N = " << workers);
      const stacks::Design design = with_element(plain, GetParam());
      const auto exact = moved_in_a_step(plain, workers);
      const auto rounded = moved_in_a_step(design, workers);
      const double forgotten = farthest(moved_if_forgotten(design, workers), exact);
      EXPECT_LT(farthest(rounded, exact), forgotten / 10);
      EXPECT_NE(rounded, exact);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Elements, ErrorFeedback,
                         ::testing::Values(compute::WireElement::float16,
                                           compute::WireElement::bfloat16,
                                           compute::WireElement::truncated16),
                         [](const auto& each) { return std::string(name(each.param)); });

// What is owed comes to rank 0 for a snapshot, each rank's in its place, and is counted apart.
TEST(Residuals, AreGatheredForASnapshot) {
  for (const stacks::Design& design :
       {with_element(allreduce_design(Algorithm::ring, 64), compute::WireElement::float16),
        with_element(cos_design(true, true, true), compute::WireElement::float16),
        with_element(tf_ring_design(true, true), compute::WireElement::float16)}) {
    GroupOptions options = group_options(design, 3, kElements, 5);
    base::VirtualLoop loop;
    Group group(loop, options, simulated_endpoints(loop, 3, 1));
    group.run();
    Values all;
    for (int rank = 0; rank < 3; ++rank) {
      const Values& held = group.rank(rank).settled.at(1).residuals;
      ASSERT_EQ(held.size(), rank == 0 ? 3 * kElements : kElements);
      all.insert(all.end(), held.begin(), held.begin() + kElements);
    }
    EXPECT_EQ(group.rank(0).settled.at(1).residuals, all);
    EXPECT_NE(all, Values(all.size()));
    const auto apart = group.rank(1).endpoint().counters().sent_of(transport::Traffic::apart);
    EXPECT_EQ(apart, (transport::Count{1, kElements * sizeof(float)}));
  }
}

}  // namespace
}  // namespace dlobd::exchange::testing
