// TensorFlow's ring: how it cuts a pack, what a pack hides, and what it refuses.
#include "exchange/tf_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exchange/designs.h"
#include "exchange/group.h"
#include "transport/simulated/network.h"

namespace dlobd::exchange::testing {
namespace {

using transport::simulated::Network;

TEST(TfSections, AreRoundedUpToTheNext64BytesAsTensorFlowDoesIt) {
  const TfRingOptions options;
  const TfSections lenet(431'080, 2, options);
  EXPECT_EQ(lenet.at(0).size(), 215'552U);
  EXPECT_EQ(lenet.at(1).size(), 215'528U);
  EXPECT_EQ(TfSections(1024, 2, options).at(0).size(), 528U);  // 512 would do
  const TfSections small(37, 8, options);
  EXPECT_EQ(small.at(2), (compute::Range{32, 37}));
  EXPECT_EQ(small.at(3).size(), 0U);
}

TEST(TfSections, AreTwoOfEachChunkWhereAChunkExceeds4MiB) {
  const TfRingOptions options;
  constexpr std::size_t kMi = 1 << 20;
  EXPECT_EQ(TfSections(4 * kMi, 4, options).subdivisions, 1);
  EXPECT_EQ(TfSections(4 * kMi, 3, options).subdivisions, 2);
  EXPECT_EQ(TfSections(64 * kMi, 2, options).subdivisions, 2);  // no more, however large
  EXPECT_EQ(TfSections(64 * kMi, 2, options).count, 4);
  EXPECT_EQ(TfSections(64 * kMi, 2, options).chunk(3), 1);
}

TEST(TfSections, AreCutByTheBytesThatTravel) {
  TfRingOptions options;
  options.element = compute::WireElement::bfloat16;
  constexpr std::size_t kMi = 1 << 20;
  EXPECT_EQ(TfSections(1024, 2, options).at(0).size(), 544U);
  const TfSections small(37, 8, options);
  EXPECT_EQ(small.at(1), (compute::Range{32, 37}));
  EXPECT_EQ(small.at(2).size(), 0U);
  EXPECT_EQ(TfSections(8 * kMi, 4, options).subdivisions, 1);
  EXPECT_EQ(TfSections(8 * kMi, 3, options).subdivisions, 2);
}

TEST(TfSections, CoverAPackOnce) {
  TfRingOptions options;
  options.most_chunk_bytes = 64;
  for (const std::size_t alignment_bytes : {4, 64}) {
    options.alignment_bytes = alignment_bytes;
    for (int ranks = 1; ranks <= 9; ++ranks) {
      for (std::size_t elements = 1; elements < 300; elements += 7) {
        const TfSections sections(elements, ranks, options);
        std::size_t at = 0;
        for (int section = 0; section < sections.count; ++section) {
          EXPECT_EQ(sections.at(section).begin, at);
          at = sections.at(section).end;
        }
        EXPECT_EQ(at, elements);
      }
    }
  }
}

TEST(TfRing, OnePackHidesNothingAndSeveralDo) {
  for (const bool single_pack : {true, false}) {
    GroupOptions options = group_options(tf_ring_design(single_pack, true), 3, 301, 1);
    base::VirtualLoop loop;
    Group group(loop, options, simulated_endpoints(loop, 3, 1));
    group.run();
    for (const auto& step : group.rank(1).phases) {
      EXPECT_EQ(step.communication > base::Duration::zero(), !single_pack);
      EXPECT_GT(step.of(metrics::Phase::exchange), base::Duration::zero());
    }
  }
}

// Rank 0 of two runs a step; the test plays rank 1.
class Peer : public ::testing::Test {
 protected:
  Peer()
      : network_(loop_, jittery_link(), 2, 1),
        endpoints_(endpoints_of(network_, 2)),
        arena_(uneven_parameters(20)),
        optimizer_(OptimizerSettings(), arena_, compute::cpu_kernels()),
        phases_(loop_),
        ring_(Context{*endpoints_[0], arena_, optimizer_, compute::cpu_kernels(), phases_,
                      Layout{2, 0}},
              TfRingOptions()) {
    other_ = std::make_unique<TfRing>(
        Context{*endpoints_[1], arena_, optimizer_, compute::cpu_kernels(), phases_, Layout{2, 0}},
        TfRingOptions());  // for its regions
  }

  base::Task<void> one_step(std::size_t gradients) {
    std::vector<std::vector<std::byte>> descriptors;
    for (auto& each : endpoints_) descriptors.push_back(*each->descriptor());
    auto connected = co_await endpoints_[0]->connect(descriptors);
    EXPECT_TRUE(connected.has_value());
    auto begun = co_await ring_.begin_step(4);
    EXPECT_TRUE(begun.has_value());
    for (std::size_t i = 0; i < gradients; ++i) ring_.gradient_ready(arena_.views().size() - 1 - i);
    outcome_ = co_await ring_.finish_step();
  }

  base::Task<void> say(std::vector<std::byte> bytes) {
    std::vector<std::vector<std::byte>> descriptors;
    for (auto& each : endpoints_) descriptors.push_back(*each->descriptor());
    auto connected = co_await endpoints_[1]->connect(descriptors);
    EXPECT_TRUE(connected.has_value());
    transport::Message message(0, transport::Notification{0, 0xffffffff}, bytes);
    auto sent = co_await endpoints_[1]->send(message);
    EXPECT_TRUE(sent.has_value());
  }

  std::string refusal(const TfRequest& request) {
    const auto bytes = request.encode();
    loop_.spawn(one_step(arena_.views().size()));
    loop_.spawn(say({bytes.begin(), bytes.end()}));
    loop_.run();
    if (!outcome_) return "hangs";
    if (outcome_->has_value()) return "accepted";
    EXPECT_EQ(outcome_->error().kind, base::ErrorKind::corrupt_data);
    EXPECT_EQ(outcome_->error().rank, 1);
    return outcome_->error().message;
  }

  base::VirtualLoop loop_;
  Network network_;
  std::vector<std::unique_ptr<transport::Endpoint>> endpoints_;
  compute::ParameterArena arena_;
  Optimizer optimizer_;
  metrics::Phases phases_;
  TfRing ring_;
  std::unique_ptr<TfRing> other_;
  std::optional<base::Result<StepOutcome>> outcome_;
};

TEST_F(Peer, WhoAsksForAnotherStepIsRefused) {
  EXPECT_THAT(refusal({9, 0, 0, 0, 0}), ::testing::HasSubstr("asks for what is not due: rank 1"));
}
TEST_F(Peer, WhoAsksForASectionThatIsNotThereIsRefused) {
  EXPECT_THAT(refusal({4, 0, 0, 2, 0}), ::testing::HasSubstr("asks for what is not due"));
}
TEST_F(Peer, WhoAsksForASectionThatEndsHereIsRefused) {
  // Of chunk 1 rank 0 is the last in the first pass.
  EXPECT_THAT(refusal({4, 0, 0, 1, 0}), ::testing::HasSubstr("asks for what is not due"));
}
TEST_F(Peer, WhoAsksTheWrongRankIsRefused) {
  EXPECT_THAT(refusal({4, 0, 0, 0, 1}), ::testing::HasSubstr("asks for what is not due"));
}
TEST_F(Peer, WhoAsksInAnUnknownPassIsRefused) {
  EXPECT_THAT(refusal({4, 0, 2, 0, 0}), ::testing::HasSubstr("asks for what is not due"));
}

TEST_F(Peer, AStepWithoutAllItsGradientsSaysHowManyAreMissing) {
  loop_.spawn(one_step(1));
  loop_.spawn(say({}));
  loop_.run();
  ASSERT_TRUE(outcome_.has_value());
  ASSERT_FALSE(outcome_->has_value());
  EXPECT_EQ(outcome_->error().message,
            "the backward pass ended before all gradients were ready: 3 missing");
}

}  // namespace
}  // namespace dlobd::exchange::testing
