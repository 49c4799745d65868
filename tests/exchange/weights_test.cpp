// Every design against its serial oracle, bit for bit, and against its closed form, in virtual
// time.
#include <gtest/gtest.h>

#include <bit>
#include <ostream>

#include "base/random.h"
#include "exchange/designs.h"
#include "exchange/group.h"
#include "seeds.h"

namespace dlobd::exchange::testing {
namespace {

class Protocol : public ::testing::TestWithParam<std::size_t> {};

TEST_P(Protocol, EqualsItsOracleAndItsClosedForm) {
  const NamedDesign named = all_designs().at(GetParam());
  for (const int world_size : sizes({1, 2, 3, 4, 5, 8}, {1, 3, 5})) {
    for (const std::size_t elements : {std::size_t{3}, std::size_t{37}, std::size_t{301}}) {
      base::VirtualLoop loop;
      Group group(loop, group_options(named.design, world_size, elements, 11),
                  simulated_endpoints(loop, named.design.layout(world_size).world_size(), 12));
      group.run();
      SCOPED_TRACE(::testing::Message()
                   << named.name << ", N = " << world_size << ", P = " << elements);
      expect_oracle(group);
      expect_closed_form(group);
      if (HasFatalFailure()) return;
    }
  }
}

// 2,000 interleavings: each seed is another network, another pace of computing, other gradients.
TEST_P(Protocol, EqualsItsOracleWhateverTheInterleaving) {
  const NamedDesign named = all_designs().at(GetParam());
  for (std::uint64_t seed = 0; seed < seeds(named.interleavings); ++seed) {
    base::Random random = base::Random::of({seed, GetParam()});
    const int world_size = 2 + static_cast<int>(random.below(7));
    const std::size_t elements = 1 + random.below(80);
    GroupOptions options = group_options(named.design, world_size, elements, seed);
    options.compute = base::Duration(static_cast<std::int64_t>(1 + random.below(100'000)));
    base::VirtualLoop loop;
    Group group(loop, options,
                simulated_endpoints(loop, named.design.layout(world_size).world_size(), seed));
    group.run();
    SCOPED_TRACE(::testing::Message() << named.name << ", seed " << seed << ", N = " << world_size
                                      << ", P = " << elements);
    expect_oracle(group);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Protocol, IsTheSameRunForTheSameSeed) {
  const NamedDesign named = all_designs().at(GetParam());
  std::vector<base::Time> ends;
  for (int i = 0; i < 2; ++i) {
    base::VirtualLoop loop;
    Group group(loop, group_options(named.design, 5, 301, 3),
                simulated_endpoints(loop, named.design.layout(5).world_size(), 4));
    group.run();
    ends.push_back(loop.now());
  }
  EXPECT_EQ(ends[0], ends[1]);
}

INSTANTIATE_TEST_SUITE_P(Designs, Protocol, ::testing::Range<std::size_t>(0, all_designs().size()),
                         [](const auto& each) { return all_designs().at(each.param).name; });

// When it ended, and its weights, in a number.
struct Print {
  std::int64_t nanoseconds = 0;
  std::uint64_t weights = 0;
  friend bool operator==(const Print&, const Print&) = default;
};
void PrintTo(const Print& print, std::ostream* out) {
  *out << print.nanoseconds << " ns, weights " << print.weights;
}

Print print_of(const stacks::Design& design) {
  base::VirtualLoop loop;
  Group group(loop, group_options(design, 5, 301, 3),
              simulated_endpoints(loop, design.layout(5).world_size(), 4));
  group.run();
  Print print{loop.now().count(), 0xcbf29ce484222325};
  for (const float weight : group.rank(0).held().parameters) {
    print.weights = (print.weights ^ std::bit_cast<std::uint32_t>(weight)) * 0x100000001b3;
  }
  return print;
}

// The numbers are what any compiler's build gave: a seed is the same run under all of them.
TEST(VirtualTime, IsTheSameRunUnderEveryCompiler) {
  EXPECT_EQ(print_of(design_of("allreduce")), (Print{967'010, 3'997'308'121'731'164'225}));
  EXPECT_EQ(print_of(design_of("bigdl")), (Print{2'375'020, 8'623'573'412'426'611'887}));
}

// What settling moves is no part of a step.
TEST(Settle, IsCountedApart) {
  const auto apart = [](const stacks::Design& design, int rank) {
    GroupOptions options = group_options(design, 4, 37, 1);
    options.settle_after = {{1, Settle::parameters_and_optimizer}};
    base::VirtualLoop loop;
    Group group(loop, options, simulated_endpoints(loop, 4, 1));
    group.run();
    return group.rank(rank).endpoint().counters().sent_of(transport::Traffic::apart);
  };
  // Slices of 9, 9, 9 and 10 elements: weights to three peers, momentum to rank 0.
  EXPECT_EQ(apart(cos_design(true, true, true), 1), (transport::Count{0, 0}));
  EXPECT_EQ(apart(cos_design(false, false, false), 0), (transport::Count{3, 3 * 9 * 4}));
  EXPECT_EQ(apart(cos_design(false, false, false), 3), (transport::Count{4, 4 * 10 * 4}));
  EXPECT_EQ(apart(cos_design(true, false, true), 3), (transport::Count{1, 10 * 4}));
  EXPECT_EQ(apart(allreduce_design(Algorithm::automatic, 64), 1), (transport::Count{0, 0}));
}

// The defects are real: faithful, rank 0 holds stale weights and foreign momentum when it saves.
TEST(Settle, FaithfulSnapshotIsWholeInRankZerosSliceOnly) {
  const auto saved = [](const stacks::Design& design) {
    base::VirtualLoop loop;
    Group group(loop, group_options(design, 4, 37, 1), simulated_endpoints(loop, 4, 1));
    group.run();
    return group.rank(0).settled.at(1);
  };
  const Held faithful = saved(cos_design(true, true, true));
  const Held fixed = saved(cos_design(false, false, false));
  for (std::size_t i = 0; i < 37; ++i) {
    EXPECT_EQ(faithful.parameters[i] == fixed.parameters[i], i < 9) << i;
    EXPECT_EQ(faithful.momentum[i] == fixed.momentum[i], i < 9) << i;
  }
}

// A run that saves rank 0's state, ends, and goes on from it on all ranks.
Values weights_after_resuming(const stacks::Design& design) {
  GroupOptions options = group_options(design, 4, 37, 1);
  options.steps = 2;
  const int world_size = options.layout().world_size();
  Held saved;
  {
    base::VirtualLoop loop;
    Group group(loop, options, simulated_endpoints(loop, world_size, 1));
    group.run();
    saved = group.rank(0).settled.at(1);
  }
  options.first_step = 2;
  options.steps = 5;
  options.start = saved;
  options.settle_after = {{4, Settle::parameters}};
  base::VirtualLoop loop;
  Group group(loop, options, simulated_endpoints(loop, world_size, 2));
  group.run();
  return group.rank(0).settled.at(4).parameters;
}

Values weights_without_a_break(const stacks::Design& design) {
  GroupOptions options = group_options(design, 4, 37, 1);
  options.steps = 5;
  options.settle_after = {{4, Settle::parameters}};
  base::VirtualLoop loop;
  Group group(loop, options, simulated_endpoints(loop, options.layout().world_size(), 1));
  group.run();
  return group.rank(0).settled.at(4).parameters;
}

TEST(Resume, IsTheSameTrajectoryUnlessADefectForbidsIt) {
  for (const stacks::Design& design :
       {cos_design(false, false, false), cos_design(false, false, true),
        design_of("caffeonspark", "fixed", {}, true), tf_ring_design(true, true),
        tf_ring_design(false, true), improved_design("tensorflowonspark", true),
        tf_ps_design(3, synchronous(), false), improved_design("bigdl", true),
        improved_design("caffeonspark", true), bigdl_design(false, false, false),
        bigdl_design(true, true, false), allreduce_design(Algorithm::ring, 64),
        allreduce_design(Algorithm::recursive_doubling, 64),
        with_element(allreduce_design(Algorithm::ring, 64), compute::WireElement::bfloat16),
        with_element(allreduce_design(Algorithm::recursive_doubling, 64),
                     compute::WireElement::float16),
        with_element(cos_design(false, false, false), compute::WireElement::truncated16),
        with_element(tf_ring_design(true, true), compute::WireElement::float16),
        with_element(tf_ring_design(false, true), compute::WireElement::truncated16),
        with_element(improved_design("tensorflowonspark", true), compute::WireElement::bfloat16)}) {
    EXPECT_EQ(weights_after_resuming(design), weights_without_a_break(design));
  }
  // Stale weights, foreign momentum, or both; no momentum.
  for (const stacks::Design& design :
       {cos_design(true, true, true), cos_design(false, true, false),
        cos_design(true, false, false), bigdl_design(false, false, true)}) {
    EXPECT_NE(weights_after_resuming(design), weights_without_a_break(design));
  }
}

// One rank sees every step through: overlap is counted apart, phases add up.
TEST(Phases, AddUpToTheStepAndOverlapIsApart) {
  GroupOptions options = group_options(allreduce_design(Algorithm::ring, 64), 3, 301, 1);
  base::VirtualLoop loop;
  Group group(loop, options, simulated_endpoints(loop, 3, 1));
  group.run();
  expect_phases_add_up(group, [](const metrics::Phases::Totals& step) {
    EXPECT_GT(step.communication, base::Duration::zero());
    EXPECT_LE(step.communication, step.of(metrics::Phase::compute));
    EXPECT_GT(step.of(metrics::Phase::exchange), base::Duration::zero());
  });
}

// Simulations at scale move no payload and hold no memory: the same messages, the same time.
TEST(Phantom, CountsTheSameWithoutMemory) {
  for (const NamedDesign& named : all_designs()) {
    std::vector<base::Time> ends;
    for (const auto backing : {compute::Backing::memory, compute::Backing::phantom}) {
      GroupOptions options = group_options(named.design, 5, 301, 3);
      options.backing = backing;
      base::VirtualLoop loop;
      Group group(loop, options,
                  simulated_endpoints(loop, options.layout().world_size(), 4,
                                      backing == compute::Backing::memory
                                          ? transport::simulated::Payload::moved
                                          : transport::simulated::Payload::counted));
      group.run();
      expect_closed_form(group);
      ends.push_back(loop.now());
    }
    EXPECT_EQ(ends[0], ends[1]) << named.name;
  }
}

}  // namespace
}  // namespace dlobd::exchange::testing
