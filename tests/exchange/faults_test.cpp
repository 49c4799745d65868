// Ranks that are killed, stopped, cut off or cut from one peer in the middle of a step, in virtual
// time. A minimal failure detector stands for the cluster: the first suspicion is the verdict, and
// the verdict fails every survivor's endpoint. What is tested is that every exchange then ends,
// with that verdict.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "exchange/designs.h"
#include "exchange/group.h"
#include "seeds.h"
#include "transport/simulated/network.h"

namespace dlobd::exchange::testing {
namespace {

using transport::simulated::Fault;
using transport::simulated::Faults;
using transport::simulated::Network;

// How long a silent rank is given.
constexpr base::Duration kHeartbeatTimeout = std::chrono::milliseconds(20);

class Detector {
 public:
  Detector(base::Loop& loop, Network& network, Group& group, std::uint64_t seed)
      : loop_(loop), faults_(network.faults()), group_(group), random_(seed) {
    for (int rank = 0; rank < group.options().layout().world_size(); ++rank) {
      group.rank(rank).endpoint().on_link_broken(
          [this, rank](int peer, const base::Error&) { suspect(rank, peer); });
    }
    faults_.on_change([this](const Fault& fault) {
      if (fault.kind == Fault::Kind::stop || fault.kind == Fault::Kind::cut_off) {
        loop_.call_after(kHeartbeatTimeout, [this, rank = fault.rank] { decide(rank); });
      }
    });
  }

  // Who is lost, once that is known.
  [[nodiscard]] std::optional<int> culprit() const { return culprit_; }

 private:
  void suspect(int by, int peer) {
    const bool heard = faults_.alive(by) && !faults_.is_stopped(by) && !faults_.is_cut_off(by);
    if (heard) decide(peer);
  }

  // The news travels: each survivor hears of it at its own time.
  void decide(int culprit) {
    if (culprit_) return;
    culprit_ = culprit;
    for (int rank = 0; rank < group_.options().layout().world_size(); ++rank) {
      if (rank == culprit) continue;
      const base::Duration travel(static_cast<std::int64_t>(random_.below(100'000)));
      loop_.call_after(travel, [this, rank, culprit] {
        group_.rank(rank).endpoint().fail(base::Error(
            base::ErrorKind::peer_lost, fmt::format("peer lost: rank {}", culprit), culprit));
      });
    }
  }

  base::Loop& loop_;
  Faults& faults_;
  Group& group_;
  base::Random random_;
  std::optional<int> culprit_;
};

Fault some_fault(base::Random& random, int rank, int world_size) {
  switch (random.below(4)) {
    case 0: return Fault::kill(rank);
    case 1: return Fault::stop(rank);
    case 2: return Fault::cut_off(rank);
    default: {
      const int distance =
          1 + static_cast<int>(random.below(static_cast<unsigned>(world_size - 1)));
      return Fault::cut(rank, (rank + distance) % world_size);
    }
  }
}

std::vector<NamedDesign> designs() {
  return {{"caffeonspark_faithful", design_of("caffeonspark")},
          {"caffeonspark_fixed", design_of("caffeonspark", "fixed")},
          {"caffeonspark_rdma", cos_rdma_design({})},
          {"tf_ring_faithful", tf_ring_design(true, true)},
          {"tf_ring_packs", tf_ring_design(false, true)},
          {"bigdl_faithful", design_of("bigdl")},
          {"bigdl_fixed", design_of("bigdl", "fixed")},
          {"bigdl_drops", bigdl_drop_design(true)},
          {"bigdl_improved", improved_design("bigdl", true)},
          {"caffeonspark_improved", improved_design("caffeonspark", true)},
          {"tf_ps_asynchronous", tf_ps_design(2, asynchronous())},
          {"tf_ps_bounded", tf_ps_design(1, asynchronous(0))},
          {"tf_ps_synchronous", tf_ps_design(2, synchronous())},
          {"tf_ps_backup", tf_ps_design(2, synchronous(1))},
          {"tf_ps_improved", tf_ps_improved_design(2, asynchronous())},
          {"tf_ps_improved_synchronous", tf_ps_improved_design(2, synchronous())},
          {"caffeonspark_float16",
           with_element(design_of("caffeonspark", "fixed"), compute::WireElement::float16)},
          {"tf_ring_bfloat16",
           with_element(tf_ring_design(false, true), compute::WireElement::bfloat16)},
          {"allreduce_ring", allreduce_design(Algorithm::ring, 64)},
          {"allreduce_doubling", allreduce_design(Algorithm::recursive_doubling, 64)}};
}

class Loss : public ::testing::TestWithParam<std::size_t> {
 protected:
  // One run with one fault; `in_message`: in the middle of one of the victim's messages of any step
  // but the last, so that nobody can finish without the victim.
  void lose_one(std::uint64_t seed, bool in_message) {
    const NamedDesign named = designs().at(GetParam());
    base::Random random = base::Random::of({seed, GetParam()});
    GroupOptions options;
    options.design = named.design;
    options.workers = 2 + static_cast<int>(random.below(4));
    options.parameters = uneven_parameters(1 + random.below(60));
    options.seed = seed;
    options.compute = std::chrono::microseconds(20);
    options.settle_after = {{1, Settle::parameters_and_optimizer}};

    base::VirtualLoop loop;
    Network network(loop, jittery_link(), options.layout().world_size(), seed);
    Group group(loop, options, endpoints_of(network, options.layout().world_size()));
    Detector detector(loop, network, group, seed);
    const int victim =
        static_cast<int>(random.below(static_cast<unsigned>(options.layout().world_size())));
    const Fault fault = some_fault(random, victim, options.layout().world_size());
    if (in_message) {
      const auto each =
          stacks::step_traffic(options.design, group.views(), options.layout(), victim);
      const std::uint64_t sent = each.data_sent.messages + each.control_sent.messages;
      network.at_message(victim, 1 + random.below(sent * (options.steps - 1)), fault);
    } else {
      network.strike_at(base::Time(static_cast<std::int64_t>(random.below(1'000'000))), fault);
    }
    group.run();

    SCOPED_TRACE(::testing::Message() << named.name << ", seed " << seed << ", N = "
                                      << options.layout().world_size() << ", victim " << victim);
    if (in_message) {
      ASSERT_TRUE(detector.culprit().has_value());
    }
    for (int rank = 0; rank < options.layout().world_size(); ++rank) {
      if (rank == detector.culprit() || !network.faults().alive(rank)) continue;
      const auto& ended = group.rank(rank).ended;
      ASSERT_TRUE(ended.has_value()) << "rank " << rank << " hangs";
      if (!in_message && ended->has_value()) {
        if (options.layout().is_worker(rank)) {
          EXPECT_EQ(group.rank(rank).steps_done, options.steps);
        }
        continue;
      }
      ASSERT_FALSE(ended->has_value()) << "rank " << rank << " finished without the victim";
      EXPECT_EQ(ended->error().kind, base::ErrorKind::peer_lost) << ended->error().message;
      EXPECT_EQ(ended->error().rank, detector.culprit()) << ended->error().message;
    }
    if (!detector.culprit()) return;
    // The lost rank itself, should it come back to life, ends as well.
    Member& lost = group.rank(*detector.culprit());
    lost.endpoint().fail(base::Error(base::ErrorKind::cancelled, "the job has ended without it"));
    loop.run();
    EXPECT_TRUE(lost.ended.has_value());
  }
};

TEST_P(Loss, InMidMessageEndsEverySurvivorWithOneVerdict) {
  for (std::uint64_t seed = 0; seed < seeds(400); ++seed) {
    lose_one(seed, true);
    if (HasFailure()) return;
  }
}

TEST_P(Loss, AtAnyTimeEndsEverySurvivorWithOneVerdict) {
  for (std::uint64_t seed = 1000; seed < 1000 + seeds(100); ++seed) {
    lose_one(seed, false);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Designs, Loss, ::testing::Range<std::size_t>(0, designs().size()),
                         [](const auto& each) { return designs().at(each.param).name; });

// A backward pass that ends early leaves no coroutine behind.
TEST(AllReduce, FinishedWithoutItsGradientsSaysHowManyAreMissing) {
  EXPECT_EQ(end_of_a_step_without_its_gradients(
                [](Context context) { return std::make_unique<AllReduce>(context); }),
            "the backward pass ended before all gradients were ready: 3 missing");
}

}  // namespace
}  // namespace dlobd::exchange::testing
