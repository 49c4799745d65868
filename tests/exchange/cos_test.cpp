// CaffeOnSpark over one-sided writes: its two defects are there to be seen, and do no harm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "exchange/designs.h"
#include "exchange/group.h"

namespace dlobd::exchange::testing {
namespace {

struct Seen {
  std::set<std::vector<int>> orders;  // in which rank 0 added
  int confused = 0;                   // runs with a remark
};

Seen runs_of(const stacks::Design& design, int workers) {
  Seen seen;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    GroupOptions options = group_options(design, workers, 37, seed);
    options.settle_after.clear();
    base::VirtualLoop loop;
    Group group(loop, options, simulated_endpoints(loop, workers, seed));
    group.run();
    expect_oracle(group);
    for (int rank = 0; rank < workers; ++rank) {
      const auto remarks = group.rank(rank).exchange().remarks();
      if (!remarks.empty()) ++seen.confused;
    }
    for (const auto& order : group.rank(0).additions) seen.orders.insert(order);
  }
  return seen;
}

TEST(CosRdma, AddsInOrderOfArrivalUnlessThatIsFixed) {
  EXPECT_EQ(runs_of(cos_rdma_design({}), 3).orders.size(), 2U);
  EXPECT_EQ(runs_of(cos_rdma_design({"arrival_order"}), 3).orders,
            (std::set<std::vector<int>>{{1, 2}}));
}

// The oracle replays the order of additions of rounded gradients, too.
TEST(CosRdma, AddsGradientsOfSixteenBitsAsTheyArrive) {
  const auto design = with_element(cos_rdma_design({}), compute::WireElement::truncated16);
  EXPECT_EQ(runs_of(design, 3).orders.size(), 2U);
}

TEST(CosRdma, ReportsWhatOneQueueForBothKindsWouldHaveConfused) {
  EXPECT_GT(runs_of(cos_rdma_design({}), 4).confused, 0);
  EXPECT_EQ(runs_of(cos_rdma_design({"untyped_notification"}), 4).confused, 0);
  // A peer's weights follow its own gradients: with one peer there is nothing to confuse.
  EXPECT_EQ(runs_of(cos_rdma_design({}), 2).confused, 0);
}

TEST(CosRdma, IsAVariantWithDefectsOfItsOwn) {
  const stacks::Design rdma = design_of("caffeonspark", "", {}, true);
  EXPECT_TRUE(rdma.rdma);
  EXPECT_FALSE(rdma.has_defect("write_256_bytes"));
  EXPECT_TRUE(rdma.faithful("arrival_order"));
  EXPECT_EQ(stacks::piece_bytes(rdma), 0U);
  const stacks::Design sockets = design_of("caffeonspark");
  EXPECT_FALSE(sockets.rdma);
  EXPECT_FALSE(sockets.has_defect("untyped_notification"));
  EXPECT_FALSE(design_of("allreduce", "", {}, true).rdma);
  EXPECT_FALSE(design_of("caffeonspark", "improved", {}, true).rdma);
}

}  // namespace
}  // namespace dlobd::exchange::testing
