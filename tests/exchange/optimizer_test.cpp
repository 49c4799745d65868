#include "exchange/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "exchange/group.h"
#include "exchange/oracle.h"

namespace dlobd::exchange {
namespace {

LearningRate parsed(std::string_view policy, double base) {
  auto rate = LearningRate::parse(policy, base);
  EXPECT_TRUE(rate.has_value()) << rate.error().message;
  return rate.value_or(LearningRate());
}

std::string refusal(std::string_view policy, double base = 0.01) {
  auto rate = LearningRate::parse(policy, base);
  return rate ? "accepted" : rate.error().message;
}

TEST(LearningRate, FollowsCaffesPolicies) {
  EXPECT_EQ(parsed("fixed", 0.25).at(1'000'000), 0.25);

  const LearningRate step = parsed("step:gamma=0.5,size=10", 1);
  EXPECT_EQ(step.at(0), 1);
  EXPECT_EQ(step.at(9), 1);
  EXPECT_EQ(step.at(10), 0.5);
  EXPECT_EQ(step.at(29), 0.25);

  const LearningRate multistep = parsed("multistep:gamma=0.5,at=3/7", 1);
  EXPECT_EQ(multistep.at(2), 1);
  EXPECT_EQ(multistep.at(3), 0.5);
  EXPECT_EQ(multistep.at(7), 0.25);

  const LearningRate inv = parsed("inv:gamma=1e-4,power=0.75", 0.01);
  EXPECT_EQ(inv.at(0), 0.01);
  EXPECT_DOUBLE_EQ(inv.at(10'000), 0.01 * std::pow(2, -0.75));
}

TEST(LearningRate, InvHasCaffesLeNetValuesByDefault) {
  EXPECT_EQ(parsed("inv", 0.01).at(500), parsed("inv:gamma=1e-4,power=0.75", 0.01).at(500));
}

TEST(LearningRate, ReadsItsOwnText) {
  for (const char* text : {"fixed", "step:gamma=0.1,size=1000", "multistep:gamma=0.3,at=5/70/900",
                           "inv:gamma=0.0001,power=0.75"}) {
    const LearningRate rate = parsed(text, 0.1);
    EXPECT_EQ(rate.text(), text);
    EXPECT_EQ(parsed(rate.text(), 0.1).at(77), rate.at(77));
  }
}

TEST(LearningRate, RefusesWhatIsNoRate) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(refusal("fixed", nan),
            "the learning rate must be a finite number that is not negative: nan");
  EXPECT_EQ(refusal("fixed", infinity),
            "the learning rate must be a finite number that is not negative: inf");
  EXPECT_EQ(refusal("fixed", -0.1),
            "the learning rate must be a finite number that is not negative: -0.1");
  EXPECT_EQ(refusal("inw"), "unknown learning rate policy, did you mean inv?: inw");
  EXPECT_EQ(refusal("fixed:gamma=1"), "the learning rate policy fixed takes no values: gamma=1");
  EXPECT_EQ(refusal("inv:gamma=nan"),
            "the learning rate's gamma must be a finite number that is not negative: nan");
  EXPECT_EQ(refusal("inv:size=3"),
            "the learning rate policy inv takes gamma=... and power=...: size=3");
  EXPECT_EQ(refusal("step:gamma=0.1"),
            "the learning rate policy step needs a size, as in step:gamma=0.1,size=1000");
  EXPECT_EQ(refusal("step:size=0"), "the step size of a learning rate must be at least 1: 0");
  EXPECT_EQ(refusal("multistep:at=20/10"),
            "the steps of a multistep learning rate must rise, as in at=1000/2000: 20/10");
  EXPECT_NE(refusal("step:size=1e3"), "accepted");
  EXPECT_NE(refusal("step:"), "accepted");
}

TEST(Optimizer, UpdatesARangeAcrossViewsWithTheirMultipliers) {
  constexpr std::size_t kElements = 100;
  compute::ParameterArena arena(testing::uneven_parameters(kElements));
  OptimizerSettings settings;
  settings.learning_rate = parsed("inv", 0.1);
  Optimizer sgd(settings, arena, compute::cpu_kernels());
  const Values start = testing::initial_parameters(kElements, 5);
  std::copy(start.begin(), start.end(), arena.parameters().begin());

  Values expected = start;
  Values momentum(kElements);
  const compute::Range range{5, 77};
  for (std::uint64_t step = 0; step < 4; ++step) {
    testing::fill_gradients(arena.gradients(), 5, 0, step, 0);
    const Values gradients(arena.gradients().begin(), arena.gradients().end());
    sgd.update(step, range);
    plain_sgd(arena.views(), settings, step, range, expected, gradients, momentum);
  }
  EXPECT_EQ(Values(arena.parameters().begin(), arena.parameters().end()), expected);
  EXPECT_EQ(Values(sgd.slots().begin(), sgd.slots().end()), momentum);
  EXPECT_EQ(arena.parameters()[4], start[4]);
  EXPECT_NE(arena.parameters()[5], start[5]);
  EXPECT_NE(arena.parameters()[76], start[76]);
  EXPECT_EQ(arena.parameters()[77], start[77]);
}

// v = mu v + rate (g + decay w); w -= v, worked out by hand with exact binary fractions.
TEST(Optimizer, KeepsTheRateInsideTheMomentum) {
  std::vector<compute::ParameterSpec> specs(1);
  specs[0].name = "w";
  specs[0].shape = {1};
  compute::ParameterArena arena(specs);
  OptimizerSettings settings;
  settings.learning_rate = parsed("step:gamma=0.5,size=1", 0.5);
  settings.momentum = 0.5;
  settings.weight_decay = 0.25;
  Optimizer sgd(settings, arena, compute::cpu_kernels());
  arena.parameters()[0] = 4;
  arena.gradients()[0] = 1;
  sgd.update(0, {0, 1});  // v = 0.5 (1 + 1) = 1
  EXPECT_EQ(arena.parameters()[0], 3);
  arena.gradients()[0] = 0.25;
  sgd.update(1, {0, 1});  // v = 0.5 + 0.25 (0.25 + 0.75) = 0.75
  EXPECT_EQ(arena.parameters()[0], 2.25F);
  EXPECT_EQ(sgd.slots()[0], 0.75F);
}

// a = a + g g; w -= rate g / sqrt(a), worked out by hand; no momentum, no decay.
TEST(Adagrad, DividesByTheRootOfTheSumOfSquares) {
  std::vector<compute::ParameterSpec> specs(1);
  specs[0].name = "w";
  specs[0].shape = {2};
  compute::ParameterArena arena(specs);
  OptimizerSettings settings;
  settings.kind = OptimizerKind::adagrad;
  settings.learning_rate = parsed("fixed", 0.5);
  Optimizer adagrad(settings, arena, compute::cpu_kernels());
  EXPECT_EQ(adagrad.slots()[0], 0.1F);
  adagrad.slots()[0] = 0;
  arena.parameters()[0] = 4;
  const Values gradients{3};
  adagrad.update(0, {0, 1}, gradients);  // a = 9, w = 4 - 1.5 / 3
  EXPECT_EQ(adagrad.slots()[0], 9);
  EXPECT_EQ(arena.parameters()[0], 3.5F);
  adagrad.update(1, {0, 1}, Values{-4});  // a = 25, w = 3.5 + 2 / 5
  EXPECT_EQ(adagrad.slots()[0], 25);
  EXPECT_FLOAT_EQ(arena.parameters()[0], 3.9F);
  EXPECT_EQ(adagrad.slots()[1], 0.1F);
}

TEST(Adagrad, EqualsThePlainLoopAcrossViews) {
  constexpr std::size_t kElements = 100;
  compute::ParameterArena arena(testing::uneven_parameters(kElements));
  OptimizerSettings settings;
  settings.kind = OptimizerKind::adagrad;
  settings.learning_rate = parsed("inv", 0.1);
  Optimizer adagrad(settings, arena, compute::cpu_kernels());
  Values expected = testing::initial_parameters(kElements, 5);
  std::copy(expected.begin(), expected.end(), arena.parameters().begin());
  Values accumulators = first_slots(settings, kElements);
  for (std::uint64_t step = 0; step < 4; ++step) {
    testing::fill_gradients(arena.gradients(), 5, 0, step, 0);
    const Values gradients(arena.gradients().begin(), arena.gradients().end());
    adagrad.update(step, {5, 77});
    plain_update(arena.views(), settings, step, {5, 77}, expected, gradients, accumulators);
  }
  EXPECT_EQ(Values(arena.parameters().begin(), arena.parameters().end()), expected);
  EXPECT_EQ(Values(adagrad.slots().begin(), adagrad.slots().end()), accumulators);
}

TEST(OptimizerKind, IsReadByName) {
  EXPECT_EQ(parse_optimizer("sgd"), OptimizerKind::sgd);
  EXPECT_EQ(parse_optimizer("adagrad"), OptimizerKind::adagrad);
  const auto refused = parse_optimizer("adagard");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message, "no such optimizer, did you mean adagrad?: adagard");
}

}  // namespace
}  // namespace dlobd::exchange
