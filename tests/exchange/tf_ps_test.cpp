// What is the parameter servers' own: equality with plain SGD, staleness and its bound, backup
// workers, resuming, and what users choose.
#include "exchange/tf_ps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "exchange/designs.h"
#include "exchange/group.h"
#include "exchange/oracle_tf_ps.h"
#include "seeds.h"

namespace dlobd::exchange::testing {
namespace {

using ::testing::HasSubstr;

// A group that has run in virtual time.
std::unique_ptr<Group> ran(base::VirtualLoop& loop, const GroupOptions& options,
                           std::uint64_t seed) {
  auto group = std::make_unique<Group>(
      loop, options, simulated_endpoints(loop, options.layout().world_size(), seed));
  group->run();
  return group;
}

OptimizerSettings adagrad() {
  OptimizerSettings settings;
  settings.kind = OptimizerKind::adagrad;
  settings.learning_rate.base = 0.01;
  return settings;
}

TEST(TfPs, OneWorkerIsThePlainOptimizer) {
  for (const OptimizerSettings& optimizer : {OptimizerSettings(), adagrad()}) {
    for (const TfPsOptions& tf_ps : {asynchronous(), asynchronous(0), synchronous()}) {
      for (const int servers : {1, 2, 3}) {
        GroupOptions options = group_options(tf_ps_design(servers, tf_ps), 1, 301, 7);
        options.steps = 6;
        options.optimizer = optimizer;
        options.optimizer.learning_rate.policy = LearningRate::Policy::inv;
        options.settle_after = {{5, Settle::parameters_and_optimizer}};
        base::VirtualLoop loop;
        const auto group = ran(loop, options, 8);
        Values parameters = initial_parameters(301, options.seed);
        Values slots = first_slots(options.optimizer, 301);
        for (std::uint64_t step = 0; step < options.steps; ++step) {
          plain_update(group->views(), options.optimizer, step, {0, 301}, parameters,
                       all_gradients(options, group->views(), 301, step).front(), slots);
        }
        ASSERT_EQ(group->rank(0).settled.at(5).parameters, parameters);
        ASSERT_EQ(group->rank(0).settled.at(5).momentum, slots);
      }
    }
  }
}

TEST(TfPs, RunsAdagradOnTheServers) {
  for (const NamedDesign& named : all_designs()) {
    if (named.design.stack != "tensorflowonspark_ps") continue;
    SCOPED_TRACE(named.name);
    GroupOptions options = group_options(named.design, 4, 301, 7);
    options.optimizer = adagrad();
    base::VirtualLoop loop;
    const auto group = ran(loop, options, 8);
    expect_oracle(*group);
    if (HasFatalFailure()) return;
  }
}

std::uint64_t stalest(Group& group) {
  std::uint64_t most = 0;
  for (int rank = 0; rank < group.options().workers; ++rank) {
    for (const std::uint64_t each : group.rank(rank).staleness) most = std::max(most, each);
  }
  return most;
}

// The workers' paces differ by far: worker 0 is done when others begin.
GroupOptions uneven_paces(const stacks::Design& design, std::uint64_t seed) {
  GroupOptions options = group_options(design, 4, 60, seed);
  options.steps = 12;
  options.settle_after.clear();
  options.compute = std::chrono::milliseconds(1);
  options.slow_ranks = {{3, 20}};
  return options;
}

TEST(TfPs, StalenessIsWithinTheBoundThatIsAsked) {
  std::uint64_t most_unbounded = 0;
  for (std::uint64_t seed = 0; seed < seeds(20); ++seed) {
    for (const std::uint64_t bound : {0U, 1U, 3U}) {
      base::VirtualLoop loop;
      const auto group = ran(loop, uneven_paces(tf_ps_design(2, asynchronous(bound)), seed), seed);
      expect_oracle(*group);
      if (HasFatalFailure()) return;
      EXPECT_LE(stalest(*group), 3 * (2 * bound + 1)) << "seed " << seed;
    }
    base::VirtualLoop loop;
    const auto group = ran(loop, uneven_paces(tf_ps_design(2, asynchronous()), seed), seed);
    most_unbounded = std::max(most_unbounded, stalest(*group));
  }
  // While the slow one makes a step, the others make theirs: the bounds above have something to
  // bound.
  EXPECT_GT(most_unbounded, 3U * 7U);
}

TEST(TfPs, BackupWorkersAreNotWaitedFor) {
  const auto time = [](int backup_workers) {
    base::VirtualLoop loop;
    const auto group = ran(loop, uneven_paces(tf_ps_design(2, synchronous(backup_workers)), 5), 6);
    expect_oracle(*group);
    expect_closed_form(*group);
    // When the first three have made their steps.
    base::Duration longest{0};
    for (int rank = 0; rank < 3; ++rank) {
      base::Duration sum{0};
      for (const auto& step : group->rank(rank).phases) sum += step.wall;
      longest = std::max(longest, sum);
    }
    // The slow one's gradients came too late, but for one at most.
    std::uint64_t stale = 0;
    for (const std::uint64_t each : group->rank(3).staleness) stale += each > 0 ? 1 : 0;
    EXPECT_EQ(stale > 0, backup_workers > 0);
    return longest;
  };
  EXPECT_LT(10 * time(1), time(0));
}

// Stragglers that settle last are let through, and all go on afterwards.
TEST(TfPs, BackupWorkersCatchUpWithEveryMeeting) {
  for (std::uint64_t seed = 0; seed < seeds(100); ++seed) {
    GroupOptions options = uneven_paces(tf_ps_design(2, synchronous(1), seed % 2 == 0), seed);
    options.settle_after = {{2, Settle::parameters}, {7, Settle::parameters_and_optimizer}};
    options.slow_ranks = {{static_cast<int>(seed % 4), 1 + seed % 30}};
    base::VirtualLoop loop;
    const auto group = ran(loop, options, seed);
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    expect_oracle(*group);
    expect_closed_form(*group);
    if (HasFatalFailure()) return;
  }
}

// The servers' slots go into the snapshot and come back, whatever the optimizer.
TEST(TfPs, ResumesFromRankZerosSnapshot) {
  for (const OptimizerSettings& optimizer : {OptimizerSettings(), adagrad()}) {
    const stacks::Design design = tf_ps_design(2, synchronous(), false);
    GroupOptions whole = group_options(design, 3, 37, 1);
    whole.optimizer = optimizer;
    whole.optimizer.learning_rate.policy = LearningRate::Policy::inv;
    whole.steps = 5;
    whole.settle_after = {{1, Settle::parameters_and_optimizer}, {4, Settle::parameters}};
    base::VirtualLoop loop;
    const auto first = ran(loop, whole, 2);
    GroupOptions rest = whole;
    rest.first_step = 2;
    rest.start = first->rank(0).settled.at(1);
    base::VirtualLoop later;
    const auto second = ran(later, rest, 3);
    expect_oracle(*second);
    EXPECT_EQ(first->rank(0).settled.at(4).parameters, second->rank(0).settled.at(4).parameters);
  }
}

// The two kinds of updates and the order of additions are the same: so are all bits.
TEST(TfPs, ImprovedTrainsAsFixed) {
  const auto settled = [](const stacks::Design& design, int workers) {
    GroupOptions options = group_options(design, workers, 301, 1);
    options.steps = 5;
    options.settle_after = {{4, Settle::parameters_and_optimizer}};
    base::VirtualLoop loop;
    return ran(loop, options, 2)->rank(0).settled.at(4);
  };
  for (const int servers : {1, 2, 3}) {
    const Held fixed = settled(tf_ps_design(servers, synchronous(), false), 4);
    const Held improved = settled(tf_ps_improved_design(servers, synchronous()), 4);
    EXPECT_EQ(fixed.parameters, improved.parameters);
    EXPECT_EQ(fixed.momentum, improved.momentum);
    EXPECT_EQ(settled(tf_ps_design(servers, asynchronous()), 1).parameters,
              settled(tf_ps_improved_design(servers, asynchronous()), 1).parameters);
  }
}

// Gradients go out while the backward pass runs.
TEST(TfPs, OverlapsGradientsWithTheBackwardPass) {
  for (const stacks::Design& design :
       {tf_ps_design(2, asynchronous()), tf_ps_improved_design(2, asynchronous())}) {
    base::VirtualLoop loop;
    const auto group = ran(loop, group_options(design, 2, 301, 1), 1);
    for (int rank = 0; rank < 2; ++rank) {
      for (const auto& step : group->rank(rank).phases) {
        EXPECT_EQ(step.unattributed, base::Duration::zero());
        EXPECT_GT(step.communication, base::Duration::zero());
        EXPECT_LE(step.communication, step.of(metrics::Phase::compute));
      }
    }
  }
}

// One side of a pair, worker 0 and server 1, and the other played by hand.
struct Pair {
  base::VirtualLoop loop;
  std::vector<std::unique_ptr<transport::Endpoint>> endpoints = simulated_endpoints(loop, 2, 1);
  compute::ParameterArena arena{uneven_parameters(20)};
  Optimizer optimizer{OptimizerSettings(), arena, compute::cpu_kernels()};
  metrics::Phases phases{loop};

  Context context(std::size_t rank) {
    return Context{*endpoints[rank],       arena,  optimizer,
                   compute::cpu_kernels(), phases, Layout{1, 1}};
  }
  // Both ends, whoever has registered what.
  base::Task<base::Result<void>> connect(std::size_t rank) {
    std::vector<std::vector<std::byte>> descriptors;
    for (auto& each : endpoints) descriptors.push_back(*each->descriptor());
    auto connected = co_await endpoints[rank]->connect(descriptors);
    co_return connected;
  }
};

// What the server makes of `words` that a worker says, one after the other.
base::Result<void> served(std::vector<std::uint32_t> words, std::vector<std::uint64_t> values) {
  Values weights(20);  // as they land
  Pair pair;
  pair.endpoints[0]->register_memory(tf_ps::region::parameters,
                                     std::as_writable_bytes(std::span(weights)));
  TfPsServer server(pair.context(1), TfPsOptions());
  std::optional<base::Result<void>> ended;
  const auto serve = [&]() -> base::Task<void> {
    auto connected = co_await pair.connect(1);
    EXPECT_TRUE(connected.has_value());
    ended = co_await server.serve(0);
  };
  const auto say = [&]() -> base::Task<void> {
    auto connected = co_await pair.connect(0);
    EXPECT_TRUE(connected.has_value());
    for (const std::uint32_t index : words) {
      const transport::Notification notification{tf_ps::kind::to_server, index};
      std::vector<std::uint64_t> payload;
      if (tf_ps::word_of(index) == tf_ps::Word::run_step) payload = values;
      auto said = co_await tf_ps::say(*pair.endpoints[0], 1, notification, std::move(payload),
                                      transport::Traffic::control);
      EXPECT_TRUE(said.has_value());
    }
  };
  pair.loop.spawn(serve());
  pair.loop.spawn(say());
  pair.loop.run();
  return ended.value_or(base::Result<void>());
}

TEST(TfPs, AServerRefusesWhatIsNotDueAndNamesTheWorker) {
  using tf_ps::index_of;
  using tf_ps::Word;
  const std::uint32_t start = index_of(Word::run_step, 0);
  const auto refusal = [](const std::vector<std::uint32_t>& words,
                          const std::vector<std::uint64_t>& values) {
    const auto ended = served(words, values);
    if (ended) return std::string("served");
    EXPECT_EQ(ended.error().kind, base::ErrorKind::corrupt_data);
    EXPECT_EQ(ended.error().rank, 0);
    return ended.error().message;
  };
  EXPECT_EQ(refusal({index_of(Word::leave, 0)}, {}), "served");
  EXPECT_THAT(refusal({index_of(Word::request, 0)}, {}), HasSubstr("a request for weights"));
  EXPECT_THAT(refusal({start, index_of(Word::request, 0), index_of(Word::request, 0)}, {0}),
              HasSubstr("a request for weights from rank 0"));
  EXPECT_THAT(refusal({start, index_of(Word::request, 99)}, {0}), HasSubstr("number 99"));
  EXPECT_THAT(refusal({start, index_of(Word::gradient, 0)}, {0}), HasSubstr("a gradient"));
  EXPECT_THAT(refusal({start, start}, {0}), HasSubstr("a step's start"));
  EXPECT_THAT(refusal({start}, {0, 1}), HasSubstr("another size"));
  EXPECT_THAT(refusal({start, index_of(Word::settle, 0)}, {0}), HasSubstr("a meeting"));
  EXPECT_THAT(refusal({0xFF000000}, {}), HasSubstr("a word"));
}

// The server is lost while the worker waits for weights: the step ends with that.
TEST(TfPs, AStepThatFailsLeavesNothingBehind) {
  Pair pair;
  TfPs worker(pair.context(0), TfPsOptions());
  std::optional<base::Result<StepOutcome>> outcome;
  const auto half_a_step = [&]() -> base::Task<void> {
    auto begun = co_await worker.begin_step(0);
    EXPECT_FALSE(begun.has_value());
    worker.gradient_ready(0);
    outcome = co_await worker.finish_step();
  };
  const auto run = [&]() -> base::Task<void> {
    auto connected = co_await pair.connect(0);
    EXPECT_TRUE(connected.has_value());
    pair.loop.spawn(half_a_step());
    co_await pair.loop.sleep_for(std::chrono::milliseconds(1));
    pair.endpoints[0]->fail(base::Error(base::ErrorKind::peer_lost, "peer lost: rank 1", 1));
  };
  const auto other = [&]() -> base::Task<void> { (void)co_await pair.connect(1); };
  pair.loop.spawn(run());
  pair.loop.spawn(other());
  pair.loop.run();
  ASSERT_TRUE(outcome.has_value());
  ASSERT_FALSE(outcome->has_value());
  EXPECT_EQ(outcome->error().message, "peer lost: rank 1");
}

std::string choice(const std::map<std::string, std::string>& options, int workers = 4) {
  stacks::Choices choices;
  choices.options = options;
  const auto design = stacks::make_design("tensorflowonspark_ps", choices);
  if (!design) return design.error().message;
  const auto sensible = stacks::check_workers(*design, workers);
  return sensible ? "accepted" : sensible.error().message;
}

TEST(TfPs, RefusesChoicesThatMakeNoSense) {
  EXPECT_EQ(choice({}), "accepted");
  EXPECT_EQ(choice({{"ps", "3"}, {"updates", "asynchronous"}, {"max-staleness", "2"}}), "accepted");
  EXPECT_EQ(choice({{"updates", "synchronous"}, {"backup-workers", "3"}}), "accepted");
  EXPECT_THAT(choice({{"ps", "0"}}), HasSubstr("must be a whole number from 1 to 1024: --ps 0"));
  EXPECT_THAT(choice({{"updates", "sync"}}), HasSubstr("must be asynchronous or synchronous"));
  EXPECT_THAT(choice({{"backup-workers", "1"}}), HasSubstr("add --updates synchronous"));
  EXPECT_THAT(choice({{"updates", "synchronous"}, {"max-staleness", "1"}}),
              HasSubstr("never stale"));
  EXPECT_THAT(choice({{"updates", "synchronous"}, {"backup-workers", "4"}}),
              HasSubstr("leaves no worker to wait for among 4: --backup-workers 4"));
}

}  // namespace
}  // namespace dlobd::exchange::testing
