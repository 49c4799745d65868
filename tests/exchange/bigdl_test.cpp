// What is BigDL's own: two jobs a step at a driver, 16 bits on the wire, float32 at the owner.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "exchange/bigdl_driver.h"
#include "exchange/designs.h"
#include "exchange/group.h"
#include "exchange/oracle_bigdl.h"

namespace dlobd::exchange::testing {
namespace {

using ::testing::HasSubstr;
using transport::Count;
using transport::Traffic;

bool has_16_bits(float value) {
  return (std::bit_cast<std::uint32_t>(value) & 0xffffU) == 0;
}

bool all_16_bits(const Values& values) {
  return std::all_of(values.begin(), values.end(), has_16_bits);
}

TEST(BigDl, CutsTheSumAfterEachAdditionOrNot) {
  const auto mean = [](bool each_add, const std::vector<float>& values) {
    BigDlDefects defects;
    defects.truncate_each_add = each_add;
    return BigDlOracle({}, {}, 1, defects, {}).mean(values, values.size());
  };
  // One half of the last of the 8 bits that an element has, twice: lost one by one, kept in
  // float32.
  EXPECT_EQ(mean(true, {1, 0x1p-8F, 0x1p-8F, 0}), 0.25F);
  EXPECT_EQ(mean(false, {1, 0x1p-8F, 0x1p-8F, 0}), 0.25F + 0x1p-9F);
  // The order counts: here they are added to each other first.
  EXPECT_EQ(mean(true, {0x1p-8F, 0x1p-8F, 1, 0}), 0.25F + 0x1p-9F);
  // The mean is over those that have finished.
  EXPECT_EQ(BigDlOracle({}, {}, 1, {}, {}).mean({1, 0, 0.5F}, 2), 0.75F);
  // Each element is cut before it travels, toward zero.
  EXPECT_EQ(mean(true, {-1 - 0x1p-8F}), -1);
  EXPECT_EQ(mean(false, {-1 - 0x1p-8F}), -1);
}

TEST(BigDl, ComputesWith16BitsAndKeepsAllOfThem) {
  GroupOptions options = group_options(bigdl_design(true, true, true), 3, 37, 1);
  options.steps = 2;
  base::VirtualLoop loop;
  Group group(loop, options, simulated_endpoints(loop, 4, 1));
  group.run();
  expect_oracle(group);
  for (int rank = 0; rank < 3; ++rank) {
    for (const Values& weights : group.rank(rank).computed_with) EXPECT_TRUE(all_16_bits(weights));
  }
  EXPECT_FALSE(all_16_bits(group.rank(0).settled.at(1).parameters));
}

// N = 4, P = 37: slices of 10, 9, 9 and 9. By hand.
TEST(BigDl, CountsEveryWordAtTheDriver) {
  const auto driver = [](bool look_up, std::uint64_t steps) {
    GroupOptions options = group_options(bigdl_design(true, look_up, true), 4, 37, 1);
    options.steps = steps;
    base::VirtualLoop loop;
    Group group(loop, options, simulated_endpoints(loop, 5, 1));
    group.run();
    expect_oracle(group);
    expect_closed_form(group);
    return group.rank(4).endpoint().counters();
  };
  const auto words = [](std::uint64_t messages) { return Count{messages, 20 * messages}; };
  // The first step: 8 launches, 24 locations; 8 results, 24 look-ups, 20 registrations.
  EXPECT_EQ(driver(true, 1).sent_of(Traffic::control), words(32));
  EXPECT_EQ(driver(true, 1).received_of(Traffic::control), words(52));
  EXPECT_EQ(driver(true, 3).sent_of(Traffic::control), words(3 * 32));
  EXPECT_EQ(driver(true, 3).received_of(Traffic::control), words(3 * 32 + 20));
  EXPECT_EQ(driver(false, 3).sent_of(Traffic::control), words(3 * 8 + 24));
  EXPECT_EQ(driver(false, 3).received_of(Traffic::control), words(3 * 8 + 24 + 20));
  EXPECT_EQ(driver(true, 3).sent_of(Traffic::data), Count());
  // Four farewells.
  EXPECT_EQ(driver(true, 3).sent_of(Traffic::apart), words(4));
  EXPECT_EQ(driver(true, 3).received_of(Traffic::apart), Count());
}

TEST(BigDl, MovesHalfOfWhatFloat32Would) {
  GroupOptions options = group_options(bigdl_design(true, true, true), 4, 37, 1);
  options.steps = 1;
  options.settle_after = {{0, Settle::parameters}};
  base::VirtualLoop loop;
  Group group(loop, options, simulated_endpoints(loop, 5, 1));
  group.run();
  // Its weights to three workers, and their parts of the gradients; settling: its slice in float32.
  const auto& counters = group.rank(1).endpoint().counters();
  EXPECT_EQ(counters.sent_of(Traffic::data), (Count{6, 2 * (3 * 9 + 28)}));
  EXPECT_EQ(counters.sent_of(Traffic::apart), (Count{1, 4 * 9}));
}

TEST(BigDl, WaitsForLaunchesAreScheduling) {
  GroupOptions options = group_options(bigdl_design(true, true, true), 3, 301, 1);
  base::VirtualLoop loop;
  Group group(loop, options, simulated_endpoints(loop, 4, 1));
  group.run();
  expect_phases_add_up(group, [](const metrics::Phases::Totals& step) {
    EXPECT_GT(step.of(metrics::Phase::schedule), base::Duration::zero());
    EXPECT_GT(step.of(metrics::Phase::exchange), base::Duration::zero());
    EXPECT_EQ(step.communication, base::Duration::zero());
  });
}

// A snapshot has no momentum, but the training that goes on does.
TEST(BigDl, ASnapshotWithoutMomentumDisturbsNothing) {
  const auto run = [](std::map<std::uint64_t, Settle> settle_after) {
    GroupOptions options = group_options(bigdl_design(true, true, true), 3, 37, 1);
    options.steps = 4;
    options.settle_after = std::move(settle_after);
    base::VirtualLoop loop;
    Group group(loop, options, simulated_endpoints(loop, 4, 1));
    group.run();
    return std::pair(group.rank(0).settled, group.rank(0).held().momentum);
  };
  const auto [saved, momentum] =
      run({{1, Settle::parameters_and_optimizer}, {3, Settle::parameters}});
  const auto [unsaved, same_momentum] = run({{3, Settle::parameters}});
  EXPECT_EQ(saved.at(1).momentum, Values(37));
  EXPECT_EQ(saved.at(3).parameters, unsaved.at(3).parameters);
  EXPECT_EQ(momentum, same_momentum);
  EXPECT_NE(momentum, Values(37));
}

TEST(BigDl, LeavesWithoutAStep) {
  GroupOptions options = group_options(bigdl_design(true, true, true), 3, 37, 1);
  options.steps = 0;
  base::VirtualLoop loop;
  Group group(loop, options, simulated_endpoints(loop, 4, 1));
  group.run();
  for (int rank = 0; rank < 4; ++rank) {
    ASSERT_TRUE(group.rank(rank).ended.has_value()) << rank;
    EXPECT_TRUE(group.rank(rank).ended->has_value()) << rank;
    EXPECT_EQ(group.rank(rank).endpoint().counters().sent_of(Traffic::control), Count()) << rank;
  }
}

// A driver, and two workers that say whatever the test wants.
class Driver : public ::testing::Test {
 protected:
  Driver()
      : endpoints_(simulated_endpoints(loop_, 3, 1)),
        arena_(uneven_parameters(5)),
        optimizer_(OptimizerSettings(), arena_, compute::cpu_kernels()),
        phases_(loop_),
        driver_(Context{*endpoints_[2], arena_, optimizer_, compute::cpu_kernels(), phases_,
                        Layout{2, 1}},
                BigDlDrop{}) {}

  void say(int worker, bigdl::Say what, bigdl::Block block = {}, int value = 0) {
    bigdl::Control control;
    control.say = what;
    control.block = block;
    control.value = value;
    words_.emplace_back(worker, control);
  }

  base::Result<void> served() {
    std::vector<std::vector<std::byte>> descriptors;
    for (const auto& each : endpoints_) descriptors.push_back(*each->descriptor());
    for (int rank = 0; rank < 3; ++rank) loop_.spawn(play(rank, descriptors));
    loop_.run();
    return ended_.value_or(base::fail(base::ErrorKind::deadline_exceeded, "it still waits"));
  }

 private:
  base::Task<void> play(int rank, const std::vector<std::vector<std::byte>>& descriptors) {
    auto& endpoint = *endpoints_[static_cast<std::size_t>(rank)];
    auto connected = co_await endpoint.connect(descriptors);
    EXPECT_TRUE(connected.has_value());
    if (rank == 2) {
      ended_ = co_await driver_.serve(0);
      co_return;
    }
    for (const auto& [worker, control] : words_) {
      if (worker != rank) continue;
      auto said = co_await bigdl::say(endpoint, 2, bigdl::kind::to_driver, 0, control);
      EXPECT_TRUE(said.has_value());
    }
  }

  base::VirtualLoop loop_;
  std::vector<std::unique_ptr<transport::Endpoint>> endpoints_;
  compute::ParameterArena arena_;
  Optimizer optimizer_;
  metrics::Phases phases_;
  BigDlDriver driver_;
  std::vector<std::pair<int, bigdl::Control>> words_;
  std::optional<base::Result<void>> ended_;
};

TEST_F(Driver, EndsWhenAllHaveLeft) {
  say(0, bigdl::Say::leave);
  say(1, bigdl::Say::leave);
  const auto end = served();
  EXPECT_TRUE(end.has_value()) << end.error().message;
}

TEST_F(Driver, WaitsForEveryWorker) {
  say(1, bigdl::Say::leave);
  EXPECT_THAT(served().error().message, HasSubstr("it still waits"));
}

TEST_F(Driver, RefusesAQuestionForABlockThatIsNotThere) {
  say(1, bigdl::Say::look_up, {bigdl::Sort::gradients, 0, 1});
  const auto end = served();
  ASSERT_FALSE(end.has_value());
  EXPECT_EQ(end.error().kind, base::ErrorKind::corrupt_data);
  EXPECT_EQ(end.error().rank, 1);
  EXPECT_THAT(end.error().message, HasSubstr("a block that nobody has registered from rank 1"));
}

TEST_F(Driver, RefusesAResultThatIsNotDue) {
  say(0, bigdl::Say::registration, {bigdl::Sort::weights, 0, 0});
  say(0, bigdl::Say::result, {}, 1);
  const auto end = served();
  ASSERT_FALSE(end.has_value());
  EXPECT_EQ(end.error().rank, 0);
  EXPECT_THAT(end.error().message, HasSubstr("a result from rank 0"));
}

TEST_F(Driver, RefusesAWorkerThatLeavesWhileTheOthersGoOn) {
  say(0, bigdl::Say::registration, {bigdl::Sort::weights, 0, 0});
  say(1, bigdl::Say::leave);
  const auto end = served();
  ASSERT_FALSE(end.has_value());
  EXPECT_EQ(end.error().kind, base::ErrorKind::corrupt_data);
}

TEST_F(Driver, RefusesABlockThatIsRegisteredTwice) {
  say(0, bigdl::Say::registration, {bigdl::Sort::weights, 0, 0});
  say(0, bigdl::Say::registration, {bigdl::Sort::weights, 0, 0});
  const auto end = served();
  ASSERT_FALSE(end.has_value());
  EXPECT_THAT(end.error().message, HasSubstr("a registration from rank 0"));
}

}  // namespace
}  // namespace dlobd::exchange::testing
