#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "exchange/group.h"
#include "stacks/design.h"

namespace dlobd::stacks {
namespace {

using ::testing::HasSubstr;

std::string refusal(std::string_view stack, std::optional<std::string> behaviour = std::nullopt,
                    const std::map<std::string, std::string>& defects = {}) {
  Choices choices;
  choices.behaviour = std::move(behaviour);
  choices.defects = defects;
  auto design = make_design(stack, choices);
  return design ? "accepted" : design.error().message;
}

// Caffe's LeNet.
std::vector<compute::ParameterView> lenet() {
  std::vector<compute::ParameterSpec> specs;
  const auto layer = [&specs](const std::string& name, std::vector<std::int64_t> shape,
                              std::int64_t outputs) {
    compute::ParameterSpec weight;
    weight.name = name + ".weight";
    weight.shape = std::move(shape);
    compute::ParameterSpec bias;
    bias.name = name + ".bias";
    bias.shape = {outputs};
    specs.push_back(weight);
    specs.push_back(bias);
  };
  layer("conv1", {20, 1, 5, 5}, 20);
  layer("conv2", {50, 20, 5, 5}, 50);
  layer("ip1", {500, 800}, 500);
  layer("ip2", {10, 500}, 10);
  return compute::ParameterArena(specs).views();
}

TEST(Design, CaffeOnSparkIsFaithfulUnlessToldOtherwise) {
  auto design = make_design("caffeonspark", Choices());
  ASSERT_TRUE(design.has_value());
  EXPECT_EQ(design->exchange, "cos_shard_push");
  EXPECT_EQ(design->batch_rule, BatchRule::per_device);
  EXPECT_EQ(design->defects.size(), 5U);
  for (const Defect& defect : design->defects) EXPECT_TRUE(design->faithful(defect.name));
  EXPECT_EQ(piece_bytes(*design), 256U);
  EXPECT_TRUE(loss_is_local(*design));
}

TEST(Design, BehaviourSetsAllDefectsAndADefectOverridesIt) {
  Choices choices;
  choices.behaviour = "fixed";
  choices.defects = {{"optimizer_full", "faithful"}};
  auto design = make_design("caffeonspark", choices);
  ASSERT_TRUE(design.has_value());
  EXPECT_EQ(design->behaviour, Behaviour::fixed);
  EXPECT_TRUE(design->faithful("optimizer_full"));
  EXPECT_FALSE(design->faithful("snapshot_ungathered"));
  EXPECT_EQ(piece_bytes(*design), 0U);
  EXPECT_FALSE(loss_is_local(*design));
}

// The stack's name, rules and owners, another exchange, and nothing left to fix.
TEST(Design, ImprovedIsADesignOfOurOwn) {
  for (const char* stack : {"bigdl", "caffeonspark"}) {
    const Design improved = exchange::testing::design_of(stack, "improved");
    const Design faithful = exchange::testing::design_of(stack);
    EXPECT_EQ(improved.stack, stack);
    EXPECT_EQ(improved.behaviour, Behaviour::improved);
    EXPECT_EQ(improved.exchange, "shard_push");
    EXPECT_EQ(improved.wire_element, compute::WireElement::float32);
    EXPECT_EQ(improved.batch_rule, faithful.batch_rule);
    EXPECT_EQ(improved.order, faithful.order);
    EXPECT_EQ(improved.servers, 0);
    EXPECT_TRUE(improved.defects.empty());
    EXPECT_THAT(describe(improved, "lenet", lenet(), 4), HasSubstr("Our own design"));
    // Both ways together, LeNet's weights and gradients in float32, as CaffeOnSpark moves them.
    StepTraffic sum;
    for (int rank = 0; rank < 4; ++rank) {
      sum += step_traffic(improved, lenet(), improved.layout(4), rank);
    }
    EXPECT_EQ(sum.data_sent.bytes, 8U * 431'080U * 3);
    EXPECT_EQ(sum.data_sent, sum.data_received);
  }
  EXPECT_THAT(refusal("bigdl", "improved", {{"lookup_per_block", "fixed"}}),
              HasSubstr("the improved design of the stack bigdl has no defects"));
  EXPECT_THAT(refusal("bigdl", "improoved"), HasSubstr("did you mean improved?"));
  EXPECT_THAT(refusal("bigdl", std::nullopt, {{"lookup_per_block", "improved"}}),
              HasSubstr("unknown behaviour of the defect lookup_per_block"));
}

TEST(Design, TakesAWireElementWhereItCan) {
  const auto choose = [](std::string_view stack, const char* element, const char* behaviour) {
    Choices choices;
    choices.wire_element = element;
    if (behaviour != nullptr) choices.behaviour = behaviour;
    auto design = make_design(stack, choices);
    return design ? std::string(name(design->wire_element)) : design.error().message;
  };
  EXPECT_EQ(choose("allreduce", "bfloat16", nullptr), "bfloat16");
  EXPECT_EQ(choose("caffeonspark", "float16", "fixed"), "float16");
  for (const char* behaviour : {"faithful", "fixed", "improved"}) {
    EXPECT_EQ(choose("tensorflowonspark", "truncated16", behaviour), "truncated16");
  }
  // A stack's own.
  EXPECT_EQ(choose("bigdl", "truncated16", nullptr), "truncated16");
  EXPECT_EQ(choose("bigdl", "float32", "improved"), "float32");
  EXPECT_EQ(choose("tensorflowonspark_ps", "float32", nullptr), "float32");
  EXPECT_THAT(choose("bigdl", "float16", nullptr),
              HasSubstr("the stack bigdl has truncated16 on the wire and takes no other element; "
                        "caffeonspark (faithful or fixed), tensorflowonspark, allreduce do: "
                        "--wire-element float16"));
  EXPECT_THAT(choose("caffeonspark", "float16", "improved"),
              HasSubstr("the improved design of the stack caffeonspark has float32"));
  EXPECT_THAT(choose("allreduce", "flot16", nullptr), HasSubstr("did you mean float16?"));
}

// Half of a gradient's bytes; weights stay what they are.
TEST(Counts, SixteenBitsHalveWhatGradientsTake) {
  for (const char* stack : {"allreduce", "caffeonspark", "tensorflowonspark"}) {
    Design whole = exchange::testing::design_of(stack);
    Design half = exchange::testing::design_of(stack, "", {}, false, "bfloat16");
    // Left to itself the all-reduce doubles ranges of as many bytes, so of twice the elements.
    whole.all_reduce.collective.algorithm = exchange::Algorithm::ring;
    half.all_reduce.collective.algorithm = exchange::Algorithm::ring;
    StepTraffic sums[2];
    for (int rank = 0; rank < 4; ++rank) {
      sums[0] += step_traffic(whole, lenet(), whole.layout(4), rank);
      sums[1] += step_traffic(half, lenet(), half.layout(4), rank);
    }
    EXPECT_EQ(sums[0].data_sent.messages, sums[1].data_sent.messages);
    const bool weights_too = half.stack == "caffeonspark";
    EXPECT_EQ(sums[1].data_sent.bytes * 4, sums[0].data_sent.bytes * (weights_too ? 3 : 2));
    EXPECT_EQ(sums[1].data_sent, sums[1].data_received);
    EXPECT_THAT(describe(half, "lenet", lenet(), 4),
                HasSubstr("bfloat16 gradients, with error feedback, on the wire"));
  }
}

TEST(Design, RefusesWhatItDoesNotKnowAndNamesTheNearest) {
  EXPECT_THAT(refusal("cafeonspark"), HasSubstr("unknown stack, did you mean caffeonspark?"));
  EXPECT_THAT(refusal("allreduce", "faithful"), HasSubstr("takes no behaviour"));
  EXPECT_THAT(refusal("allreduce", std::nullopt, {{"optimizer_full", "fixed"}}),
              HasSubstr("the stack allreduce has no defects"));
  EXPECT_THAT(refusal("caffeonspark", "faithfull"), HasSubstr("did you mean faithful?"));
  EXPECT_THAT(refusal("caffeonspark", std::nullopt, {{"optimiser_full", "fixed"}}),
              HasSubstr("did you mean optimizer_full?"));
  EXPECT_THAT(refusal("caffeonspark", std::nullopt, {{"optimizer_full", "fixe"}}),
              HasSubstr("did you mean fixed?"));
}

std::string lacking(const std::string& stack, const char* network, const char* processor,
                    const std::string& behaviour = "") {
  const bool rdma = std::string_view(network) == "rdma";
  const Design design = exchange::testing::design_of(stack, behaviour, {}, rdma);
  return hypothetical(design, rdma, *compute::Processor::parse(processor)).value_or("");
}

TEST(Hypothetical, IsWhatTheRealStackCannotRunOn) {
  EXPECT_EQ(lacking("bigdl", "tcp", "cpu"), "");
  EXPECT_EQ(lacking("bigdl", "tcp", "reference"), "");
  EXPECT_EQ(lacking("bigdl", "tcp", "profile:k80.json"), "");
  EXPECT_EQ(lacking("bigdl", "tcp", "gpu+cudnn"), "the real bigdl does not run on a GPU");
  EXPECT_EQ(lacking("bigdl", "rdma", "cpu"), "the real bigdl does not run over rdma");
  EXPECT_EQ(lacking("bigdl", "rdma", "profile:k80.json"), "the real bigdl does not run over rdma");
  EXPECT_EQ(lacking("bigdl", "rdma", "gpu"), "the real bigdl does not run over rdma, nor on a GPU");
  EXPECT_EQ(lacking("caffeonspark", "tcp", "cpu+onednn"), "");
  EXPECT_EQ(lacking("caffeonspark", "tcp", "gpu"), "");
  EXPECT_EQ(lacking("caffeonspark", "rdma", "gpu"), "");
  EXPECT_EQ(lacking("caffeonspark", "rdma", "profile:k80.json"), "");
  EXPECT_EQ(lacking("caffeonspark", "rdma", "cpu"),
            "the real caffeonspark does not run over rdma on a CPU");
  EXPECT_EQ(lacking("tensorflowonspark", "tcp", "gpu"), "");
  EXPECT_EQ(lacking("tensorflowonspark", "rdma", "gpu"),
            "the real tensorflowonspark does not run over rdma");
  // It had verbs, for either.
  EXPECT_EQ(lacking("tensorflowonspark_ps", "rdma", "cpu"), "");
  // Where no system is the model, none lacks anything.
  EXPECT_EQ(lacking("allreduce", "rdma", "gpu"), "");
}

TEST(Hypothetical, GoesByTheStackWhateverItsBehaviour) {
  EXPECT_EQ(lacking("bigdl", "rdma", "cpu", "improved"), lacking("bigdl", "rdma", "cpu"));
  EXPECT_EQ(lacking("bigdl", "tcp", "cpu", "improved"), "");
}

TEST(Hypothetical, IsOnThePage) {
  const Design design = exchange::testing::design_of("bigdl");
  const std::string page = describe(design, "lenet", lenet(), 4, lacking("bigdl", "rdma", "gpu"));
  EXPECT_THAT(page, HasSubstr("hypothetical: the real bigdl does not run over rdma, nor on a GPU"));
  EXPECT_EQ(describe(design, "lenet", lenet(), 4).find("hypothetical"), std::string::npos);
}

TEST(Design, OfferedNamesAreAccepted) {
  for (const std::string& name : stack_names()) EXPECT_EQ(refusal(name), "accepted");
}

// The published figures for LeNet on 2, 4 and 8 ranks: 1.72, 2.59 and 3.02 MB out of each rank.
TEST(Counts, LeNetMovesWhatTheFormulaSays) {
  const Design cos = exchange::testing::design_of("caffeonspark");
  for (const auto& [ranks, bytes] : {std::pair{2, 1'724'320U}, {4, 2'586'480U}, {8, 3'017'560U}}) {
    const StepTraffic traffic = step_traffic(cos, lenet(), cos.layout(ranks), 0);
    EXPECT_EQ(traffic.data_sent.bytes, bytes);
    EXPECT_EQ(traffic.data_sent.messages, 2U * static_cast<unsigned>(ranks - 1));
  }
}

TEST(Counts, WhatIsSentIsReceived) {
  for (const std::string& stack : stack_names()) {
    const Design design = exchange::testing::design_of(stack);
    for (int ranks = 1; ranks <= 9; ++ranks) {
      for (const bool first : {true, false}) {
        StepTraffic sum;
        for (int rank = 0; rank < design.layout(ranks).world_size(); ++rank) {
          sum += step_traffic(design, lenet(), design.layout(ranks), rank, first);
        }
        EXPECT_EQ(sum.data_sent, sum.data_received) << stack << ", N = " << ranks;
        EXPECT_EQ(sum.control_sent, sum.control_received) << stack << ", N = " << ranks;
        if (stack == "caffeonspark") {
          EXPECT_EQ(sum.data_sent.bytes, 8U * 431'080U * static_cast<unsigned>(ranks - 1));
        }
      }
    }
  }
}

TEST(Describe, FitsThePageAndSaysWhatMatters) {
  for (const std::string& stack : stack_names()) {
    for (const int ranks : {1, 2, 4, 40}) {
      const std::string page =
          describe(exchange::testing::design_of(stack), "lenet", lenet(), ranks);
      std::istringstream lines(page);
      for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
      EXPECT_THAT(page, HasSubstr("lenet: 431,080 parameters"));
      EXPECT_THAT(page, HasSubstr("Who owns what"));
    }
  }
  const Design fixed = exchange::testing::design_of("caffeonspark", "fixed");
  EXPECT_THAT(describe(fixed, "lenet", lenet(), 4), HasSubstr("off; on: messages are written"));
  const Design faithful = exchange::testing::design_of("caffeonspark");
  EXPECT_THAT(describe(faithful, "lenet", lenet(), 4), HasSubstr("2,586,480"));
}

}  // namespace
}  // namespace dlobd::stacks
