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
  expect_phases_add_up(group, [](const metrics::Phases::Totals& step) {
    EXPECT_GT(step.communication, base::Duration::zero());
    EXPECT_LE(step.communication, step.of(metrics::Phase::compute));
  });
}

// A backward pass that ends early leaves no coroutine behind.
TEST(ShardPush, FinishedWithoutItsGradientsSaysHowManyAreMissing) {
  EXPECT_EQ(end_of_a_step_without_its_gradients([](Context context) {
              return std::make_unique<ShardPush>(context, ShardPushOptions());
            }),
            "the backward pass ended before all gradients were ready: 3 missing");
}

}  // namespace
}  // namespace dlobd::exchange::testing
