// What is the overlapped sharded push's own: how it cuts its messages, and what it hides.
#include "exchange/shard_push.h"

#include <gtest/gtest.h>

#include "exchange/designs.h"
#include "exchange/group.h"

namespace dlobd::exchange::testing {
namespace {

TEST(ShardPieces, CoverEveryOwnersSliceOnceInBackwardOrder) {
  for (const bool front_loaded : {true, false}) {
    for (const std::size_t elements : {std::size_t{3}, std::size_t{37}, std::size_t{500}}) {
      const compute::ParameterArena arena(uneven_parameters(elements));
      for (const int workers : {1, 2, 3, 5, 8}) {
        ShardPushOptions options;
        options.front_loaded = front_loaded;
        options.bucket_bytes = 100;
        options.piece_elements = 11;
        const auto all = buckets(arena.views(), options.bucket_bytes);
        std::vector<int> owner_of(elements, -1);
        std::size_t bucket = 0;
        for (const Piece& piece : pieces_of(options, arena.views(), workers)) {
          EXPECT_GE(piece.bucket, bucket);
          bucket = piece.bucket;
          EXPECT_GE(piece.range.begin, all[bucket].range.begin);
          EXPECT_LE(piece.range.end, all[bucket].range.end);
          EXPECT_GE(piece.range.size(), 1U);
          EXPECT_LE(piece.range.size(), options.piece_elements);
          for (std::size_t i = piece.range.begin; i < piece.range.end; ++i) {
            EXPECT_EQ(owner_of.at(i), -1);
            owner_of[i] = piece.owner;
          }
        }
        for (int owner = 0; owner < workers; ++owner) {
          const compute::Range own = shard_of(options, elements, workers, owner);
          for (std::size_t i = own.begin; i < own.end; ++i) EXPECT_EQ(owner_of[i], owner);
        }
      }
    }
  }
}

// The same link, the same computation: what faithful does between the passes, this does during
// them.
TEST(ShardPush, HidesMostOfItsTrafficBehindTheBackwardPass) {
  const auto last_step = [](const stacks::Design& design) {
    GroupOptions options = group_options(design, 4, 3000, 1);
    options.compute = std::chrono::microseconds(400);
    options.settle_after.clear();
    base::VirtualLoop loop;
    Group group(loop, options, simulated_endpoints(loop, options.layout().world_size(), 1));
    group.run();
    expect_oracle(group);
    return group.rank(1).phases.at(2);
  };
  const auto faithful = last_step(design_of("bigdl"));
  const auto improved = last_step(improved_design("bigdl", false));
  EXPECT_LT(improved.wall, faithful.wall);
  EXPECT_EQ(improved.of(metrics::Phase::schedule), base::Duration::zero());
  EXPECT_EQ(faithful.communication, base::Duration::zero());
}

TEST(ShardPush, PhasesAddUpAndOverlapIsApart) {
  GroupOptions options = group_options(improved_design("bigdl", true), 3, 301, 1);
  base::VirtualLoop loop;
  Group group(loop, options, simulated_endpoints(loop, 3, 1));
  group.run();
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(group.rank(rank).phases.size(), options.steps);
    for (const auto& step : group.rank(rank).phases) {
      base::Duration sum = step.unattributed;
      for (const base::Duration phase : step.phases) sum += phase;
      EXPECT_EQ(sum, step.wall);
      EXPECT_EQ(step.unattributed, base::Duration::zero());
      EXPECT_GT(step.communication, base::Duration::zero());
      EXPECT_LE(step.communication, step.of(metrics::Phase::compute));
    }
  }
}

// A backward pass that ends early leaves no coroutine behind.
TEST(ShardPush, FinishedWithoutItsGradientsSaysHowManyAreMissing) {
  base::VirtualLoop loop;
  auto endpoints = simulated_endpoints(loop, 2, 1);
  compute::ParameterArena arena(uneven_parameters(20));
  Sgd optimizer(OptimizerSettings(), arena, compute::cpu_kernels());
  metrics::Phases phases(loop);
  ShardPush exchange(
      Context{*endpoints[0], arena, optimizer, compute::cpu_kernels(), phases, Layout{2, 0}},
      ShardPushOptions());
  std::optional<base::Result<StepOutcome>> outcome;
  const auto half_a_step = [&]() -> base::Task<void> {
    auto begun = co_await exchange.begin_step(0);
    EXPECT_TRUE(begun.has_value());
    exchange.gradient_ready(arena.views().size() - 1);
    outcome = co_await exchange.finish_step();
  };
  loop.spawn(half_a_step());
  loop.run();
  ASSERT_TRUE(outcome.has_value());
  ASSERT_FALSE(outcome->has_value());
  EXPECT_EQ(outcome->error().message,
            "the backward pass ended before all gradients were ready: 3 missing");
}

}  // namespace
}  // namespace dlobd::exchange::testing
