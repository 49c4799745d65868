#include "compute/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/nearest.h"
#include "compute/processor.h"

namespace dlobd::compute {
namespace {

constexpr records::Shape kMnist = {1, 28, 28};

TEST(Model, CountsOfParametersAreThePublishedOnes) {
  EXPECT_EQ(find_model("softmax", kMnist, 10)->parameter_count(), 7'850U);
  EXPECT_EQ(find_model("lenet", kMnist, 10)->parameter_count(), 431'080U);
}

TEST(Model, LenetIsCaffes) {
  const Model model = find_model("lenet", kMnist, 10).value();
  std::vector<std::string> names;
  for (const ParameterSpec& spec : model.parameters) names.push_back(spec.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
                                      "ip1.weight", "ip1.bias", "ip2.weight", "ip2.bias"}));
  EXPECT_EQ(model.parameters[2].shape, (std::vector<std::int64_t>{50, 20, 5, 5}));
  EXPECT_EQ(model.parameters[4].shape, (std::vector<std::int64_t>{500, 800}));
  EXPECT_EQ(model.parameters[4].lr_multiplier, 1);
  EXPECT_EQ(model.parameters[5].lr_multiplier, 2);
  EXPECT_EQ(model.parameters[5].decay_multiplier, 1);
  EXPECT_EQ(model.input_scale, 1.0F / 256);
  EXPECT_EQ(model.backward_order(), (std::vector<std::size_t>{7, 6, 5, 4, 3, 2, 1, 0}));
}

TEST(Model, TheShapeOfTheSamplesCounts) {
  // As on CIFAR-10's 3x32x32: conv1 3*25*20 + 20, conv2 as before, ip1 50*5*5*500 + 500.
  EXPECT_EQ(find_model("lenet", {3, 32, 32}, 10)->parameter_count(),
            std::size_t{1'520 + 25'050 + 625'500 + 5'010});
  // An odd side: Caffe's pooling rounds up, 11 -> 7 -> 4 would be too small for the second 5x5.
  const auto small = find_model("lenet", {1, 11, 11}, 10);
  ASSERT_FALSE(small.has_value());
  EXPECT_EQ(small.error().kind, base::ErrorKind::invalid_argument);
  EXPECT_THAT(small.error().message, testing::HasSubstr("1x11x11"));
  EXPECT_FALSE(find_model("softmax", kMnist, 0).has_value());
}

TEST(Model, UnknownNamesNameTheNearest) {
  const auto wrong = find_model("lenett", kMnist, 10);
  ASSERT_FALSE(wrong.has_value());
  EXPECT_EQ(wrong.error().message, "no such model: lenett (did you mean lenet?)");
}

TEST(Initialize, IsXavierOfTheSeedWithBiasesZero) {
  const Model model = find_model("lenet", kMnist, 10).value();
  const ParameterArena arena(model.parameters);
  const ParameterArena again(model.parameters);
  const ParameterArena other(model.parameters);
  again.parameters()[500] = 77;  // a bias that was something else before
  initialize(arena, model, 5);
  initialize(again, model, 5);
  initialize(other, model, 6);
  EXPECT_TRUE(
      std::equal(arena.parameters().begin(), arena.parameters().end(), again.parameters().begin()));
  EXPECT_FALSE(
      std::equal(arena.parameters().begin(), arena.parameters().end(), other.parameters().begin()));
  const std::vector<double> fan_in = {25, 0, 500, 0, 800, 0, 500, 0};
  for (std::size_t v = 0; v < arena.views().size(); ++v) {
    const auto values = arena.parameters().subspan(arena.views()[v].offset, arena.views()[v].size);
    if (fan_in[v] == 0) {
      for (const float value : values) EXPECT_EQ(value, 0.0F);
      continue;
    }
    const double bound = std::sqrt(3.0 / fan_in[v]);
    double sum = 0;
    double squares = 0;
    for (const float value : values) {
      EXPECT_LE(std::abs(value), bound * 1.000001);
      sum += value;
      squares += double{value} * value;
    }
    const auto n = static_cast<double>(values.size());
    EXPECT_NEAR(sum / n, 0, 5 * bound / std::sqrt(n));
    EXPECT_NEAR(squares / n * fan_in[v], 1, 8 / std::sqrt(n));  // a variance of 1 / fan_in
  }
}

TEST(Initialize, TheFirstBitsAreTheSameEverywhere) {
  const Model model = find_model("softmax", kMnist, 10).value();
  const ParameterArena arena(model.parameters);
  initialize(arena, model, 1);
  EXPECT_EQ(arena.parameters()[0], 0x1.fece800000000p-7F);
  EXPECT_EQ(arena.parameters()[7839], 0x1.a0e59a0000000p-6F);
}

TEST(Initialize, LeavesAPhantomAlone) {
  const Model model = find_model("lenet", kMnist, 10).value();
  const ParameterArena arena(model.parameters, 0, Backing::phantom);
  initialize(arena, model, 1);  // a write would end the program
  EXPECT_EQ(arena.size(), 431'080U);
}

TEST(Processor, ParsesWhatItPrints) {
  for (const char* text : {"cpu", "cpu+onednn", "gpu", "gpu+cudnn", "profile:a/b.json"}) {
    const auto processor = Processor::parse(text);
    ASSERT_TRUE(processor.has_value()) << text;
    EXPECT_EQ(processor->text(), text);
  }
  EXPECT_TRUE(Processor::parse("gpu+cudnn")->is_gpu());
  EXPECT_FALSE(Processor::parse("profile:x")->needs_libtorch());
  EXPECT_EQ(Processor::parse("profile:x")->profile_path, "x");
}

TEST(Processor, UnknownNamesNameTheNearest) {
  EXPECT_EQ(Processor::parse("cpu+onednm").error().message,
            "no such processor: cpu+onednm (did you mean cpu+onednn?)");
  EXPECT_EQ(Processor::parse("gpu+cudn").error().kind, base::ErrorKind::invalid_argument);
  EXPECT_FALSE(Processor::parse("profile:").has_value());
  EXPECT_FALSE(Processor::parse("").has_value());
}

TEST(Nearest, CountsEditsWithSwaps) {
  EXPECT_EQ(base::edit_distance("", "abc"), 3U);
  EXPECT_EQ(base::edit_distance("abc", "abc"), 0U);
  EXPECT_EQ(base::edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(base::edit_distance("tpc", "tcp"), 1U);
  const std::vector<std::string> words = {"tcp", "rdma", "simulated"};
  EXPECT_EQ(base::nearest("rmda", words), "rdma");
  EXPECT_EQ(base::nearest("sim", std::vector<std::string>{}), "");
}

TEST(Suggestion, GuessesOnlyWhatIsNear) {
  const std::vector<std::string> words = {"tcp", "rdma", "simulated"};
  EXPECT_EQ(base::suggestion("tpc", words), "did you mean tcp?");
  EXPECT_EQ(base::suggestion("simulate", words), "did you mean simulated?");
  EXPECT_EQ(base::suggestion("banana", words), "there are tcp, rdma, simulated");
}

}  // namespace
}  // namespace dlobd::compute
