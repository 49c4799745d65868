// libtorch's replica against the plainest loops. The plug-in is loaded once, as a rank would.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compute/naive_network.h"
#include "compute/plugin.h"
#include "compute/reference.h"
#include "compute/replica_runs.h"
#include "compute/torch_replica.h"

namespace dlobd::compute {
namespace {

constexpr records::Shape kMnist = {1, 28, 28};

Processor processor(const char* text) {
  return Processor::parse(text).value();
}

const TorchPlugin& plugin() {
  static const TorchPlugin loaded = [] {
    PluginOptions options;
    options.folder = DLOBD_PLUGIN_FOLDER;
    options.processor = processor("cpu");
    auto got = load_torch(options);
    if (!got) ADD_FAILURE() << got.error().message;
    return got.value();
  }();
  return loaded;
}

// The plug-in serves every processor of the host in one process.
TorchPlugin plugin_for(const char* name, int threads = 1) {
  TorchPlugin other = plugin();
  other.processor = processor(name);
  other.threads = threads;
  return other;
}

class TorchTest : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Replica> make(const Model& model, const char* name, int threads = 1) {
    auto replica = make_torch_replica(loop_, std::make_unique<InlineWorker>(),
                                      plugin_for(name, threads), model);
    EXPECT_TRUE(replica.has_value()) << replica.error().message;
    (*replica)->initialize(7);
    return std::move(*replica);
  }

  base::Result<StepResult> step(Replica& replica, const batches::Batch& batch) {
    heard_.views.clear();
    return run_to_end(loop_, replica.forward_backward(batch, heard_));
  }

  base::VirtualLoop loop_;
  Heard heard_{loop_};
};

TEST_P(TorchTest, LenetsGradientsAreTheNaiveLoops) {
  const Model model = find_model("lenet", kMnist, 10).value();
  const auto replica = make(model, GetParam());
  ASSERT_EQ(replica->arena().size(), 431'080U);
  const batches::Batch batch = random_batch(kMnist, 5, 10, 3);
  const auto got = step(*replica, batch);
  ASSERT_TRUE(got.has_value()) << got.error().message;
  NaiveNetwork naive(model, replica->arena());
  EXPECT_NEAR(got->loss, naive.forward_backward(batch), 1e-5);
  double largest = 0;
  for (std::size_t i = 0; i < naive.gradients.size(); ++i) {
    ASSERT_NEAR(replica->arena().gradients()[i], naive.gradients[i], 2e-5) << "parameter " << i;
    largest = std::max(largest, std::abs(naive.gradients[i]));
  }
  EXPECT_GT(largest, 0.01);
}

TEST_P(TorchTest, OddSidesAndSeveralChannelsToo) {
  // 17 -> 13 -> 7 (rounded up) -> 3 -> 2 (rounded up).
  const records::Shape shape = {3, 17, 17};
  const Model model = find_model("lenet", shape, 4).value();
  const auto replica = make(model, GetParam());
  const batches::Batch batch = random_batch(shape, 3, 4, 8);
  const auto got = step(*replica, batch);
  ASSERT_TRUE(got.has_value()) << got.error().message;
  NaiveNetwork naive(model, replica->arena());
  EXPECT_NEAR(got->loss, naive.forward_backward(batch), 1e-5);
  for (std::size_t i = 0; i < naive.gradients.size(); ++i) {
    ASSERT_NEAR(replica->arena().gradients()[i], naive.gradients[i], 3e-5) << "parameter " << i;
  }
}

TEST_P(TorchTest, ABatchOfOneWorks) {
  const Model model = find_model("lenet", kMnist, 10).value();
  const auto replica = make(model, GetParam());
  const batches::Batch batch = random_batch(kMnist, 1, 10, 5);
  const auto got = step(*replica, batch);
  ASSERT_TRUE(got.has_value()) << got.error().message;
  NaiveNetwork naive(model, replica->arena());
  EXPECT_NEAR(got->loss, naive.forward_backward(batch), 1e-5);
}

TEST_P(TorchTest, ReportsEveryViewOnceInBackwardOrder) {
  for (const char* name : {"softmax", "lenet"}) {
    const Model model = find_model(name, kMnist, 10).value();
    const auto replica = make(model, GetParam());
    const auto got = step(*replica, random_batch(kMnist, 4, 10, 3));
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(heard_.views, model.backward_order());
    EXPECT_GT(got->compute.count(), 0);
  }
}

TEST_P(TorchTest, GradientsAreOverwrittenAndRepeatBitForBit) {
  const auto replica = make(find_model("lenet", kMnist, 10).value(), GetParam());
  const batches::Batch batch = random_batch(kMnist, 8, 10, 3);
  const double loss = step(*replica, batch)->loss;
  const auto gradients = replica->arena().gradients();
  const std::vector<float> first(gradients.begin(), gradients.end());
  step(*replica, random_batch(kMnist, 6, 10, 99));  // another size between
  EXPECT_FALSE(std::equal(first.begin(), first.end(), gradients.begin()));
  EXPECT_EQ(step(*replica, batch)->loss, loss);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), gradients.begin()));
}

TEST_P(TorchTest, TwoThreadsComputeTheSame) {
  const Model model = find_model("lenet", kMnist, 10).value();
  const auto one = make(model, GetParam());
  const auto two = make(model, GetParam(), 2);
  const batches::Batch batch = random_batch(kMnist, 16, 10, 3);
  EXPECT_NEAR(step(*one, batch)->loss, step(*two, batch)->loss, 1e-5);
  for (std::size_t i = 0; i < one->arena().size(); ++i) {
    ASSERT_NEAR(one->arena().gradients()[i], two->arena().gradients()[i], 1e-5)
        << "parameter " << i;
  }
}

TEST_P(TorchTest, EvaluationCountsWhatIsRight) {
  const Model model = find_model("lenet", kMnist, 10).value();
  const auto replica = make(model, GetParam());
  batches::Batch batch = random_batch(kMnist, 40, 10, 3);
  NaiveNetwork naive(model, replica->arena());
  std::uint64_t right = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto scores = naive.forward(NaiveNetwork::sample(batch, i));
    const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
    if (i % 3 == 0) batch.labels[i] = best;  // some are right for sure
    right += best == batch.labels[i] ? 1 : 0;
  }
  const auto got = run_to_end(loop_, replica->evaluate(batch));
  ASSERT_TRUE(got.has_value()) << got.error().message;
  EXPECT_EQ(got->samples, 40U);
  EXPECT_EQ(got->correct, right);
  EXPECT_NEAR(got->loss_sum, 40 * naive.forward_backward(batch), 1e-3);
}

TEST_P(TorchTest, SoftmaxIsTheReferences) {
  const Model model = find_model("softmax", kMnist, 10).value();
  const auto replica = make(model, GetParam());
  const auto reference = make_reference(loop_, std::make_unique<InlineWorker>(), model).value();
  reference->initialize(7);
  const batches::Batch batch = random_batch(kMnist, 16, 10, 21);
  EXPECT_TRUE(std::equal(replica->arena().parameters().begin(), replica->arena().parameters().end(),
                         reference->arena().parameters().begin()));
  EXPECT_NEAR(step(*replica, batch)->loss, step(*reference, batch)->loss, 1e-5);
  for (std::size_t i = 0; i < model.parameter_count(); ++i) {
    ASSERT_NEAR(replica->arena().gradients()[i], reference->arena().gradients()[i], 1e-5);
  }
}

TEST_P(TorchTest, TheParametersAreReadAsTheyAreWhenCalled) {
  const auto replica = make(find_model("lenet", kMnist, 10).value(), GetParam());
  const batches::Batch batch = random_batch(kMnist, 4, 10, 3);
  step(*replica, batch);
  for (float& value : replica->arena().parameters()) value = 0;
  EXPECT_NEAR(step(*replica, batch)->loss, std::log(10.0), 1e-6);
}

TEST_P(TorchTest, AWorkersThreadComputesTheSameBits) {
  const Model model = find_model("lenet", kMnist, 10).value();
  const auto here = make(model, GetParam());
  const batches::Batch batch = random_batch(kMnist, 8, 10, 3);
  const double loss = step(*here, batch)->loss;
  base::RealLoop real;
  auto there =
      make_torch_replica(real, std::make_unique<ThreadWorker>(real), plugin_for(GetParam()), model)
          .value();
  there->initialize(7);
  Heard heard(real);
  for (int i = 0; i < 3; ++i) {
    const auto got = run_to_end(real, there->forward_backward(batch, heard));
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->loss, loss);
  }
  EXPECT_EQ(heard.views.size(), 24U);
  EXPECT_TRUE(std::equal(here->arena().gradients().begin(), here->arena().gradients().end(),
                         there->arena().gradients().begin()));
}

TEST_P(TorchTest, BatchesThatDoNotFitAreRefused) {
  const auto replica = make(find_model("lenet", kMnist, 10).value(), GetParam());
  batches::Batch batch = random_batch(kMnist, 4, 10, 3);
  batch.labels[1] = 10;
  const auto got = step(*replica, batch);
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(got.error().kind, base::ErrorKind::invalid_argument);
  EXPECT_THAT(got.error().message, testing::HasSubstr("label 10"));
}

INSTANTIATE_TEST_SUITE_P(Processors, TorchTest, testing::Values("cpu", "cpu+onednn"),
                         [](const auto& tested) {
                           return std::string(tested.param) == "cpu" ? "cpu" : "cpu_onednn";
                         });

TEST(TorchPluginTest, SaysWhatIsInUse) {
  EXPECT_THAT(plugin().report.libtorch, testing::MatchesRegex("[0-9]+\\.[0-9]+.*"));
  EXPECT_THAT(plugin().report.onednn, testing::MatchesRegex("[0-9]+\\.[0-9]+.*"));
  EXPECT_FALSE(plugin().report.blas.library.empty());
}

TEST(TorchPluginTest, WhatIsNotThereIsRefusedByName) {
  if (plugin().report.gpus == 0) {
    PluginOptions options;
    options.folder = DLOBD_PLUGIN_FOLDER;
    options.processor = processor("gpu+cudnn");
    const auto got = load_torch(options);
    ASSERT_FALSE(got.has_value());
    EXPECT_EQ(got.error().kind, base::ErrorKind::unavailable);
    EXPECT_THAT(got.error().message, testing::HasSubstr("gpu+cudnn"));
  }
  PluginOptions elsewhere;
  elsewhere.folder = "/nowhere";
  elsewhere.processor = processor("cpu");
  const auto got = load_torch(elsewhere);
  ASSERT_FALSE(got.has_value());
  EXPECT_THAT(got.error().message, testing::HasSubstr("/nowhere/libdlobd_torch.so"));
}

}  // namespace
}  // namespace dlobd::compute
