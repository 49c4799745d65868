#include "compute/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compute/replica_runs.h"

namespace dlobd::compute {
namespace {

constexpr records::Shape kSmall = {2, 3, 4};

// Two fully connected layers with a relu between: more views than softmax has.
Model two_layers() {
  Model model = find_model("softmax", kSmall, 5).value();
  Layer first = model.layers.front();
  first.out_channels = 7;
  Layer relu;
  relu.kind = LayerKind::relu;
  relu.in_channels = relu.out_channels = 7;
  relu.in_height = relu.in_width = relu.out_height = relu.out_width = 1;
  Layer last = model.layers.front();
  last.in_channels = 7;
  last.in_height = last.in_width = 1;
  last.weight = 2;
  last.bias = 3;
  model.layers = {first, relu, last};
  model.parameters = {{"ip1.weight", {7, 24}, 1, 1},
                      {"ip1.bias", {7}, 2, 1},
                      {"ip2.weight", {5, 7}, 1, 1},
                      {"ip2.bias", {5}, 2, 1}};
  return model;
}

class ReferenceTest : public testing::Test {
 protected:
  std::unique_ptr<Replica> make(const Model& model) {
    auto replica = make_reference(loop_, std::make_unique<InlineWorker>(), model);
    EXPECT_TRUE(replica.has_value());
    (*replica)->initialize(3);
    return std::move(*replica);
  }

  double loss(Replica& replica, const batches::Batch& batch) {
    Heard heard(loop_);
    return run_to_end(loop_, replica.forward_backward(batch, heard))->loss;
  }

  // The loss that evaluate() sums, as a mean: it leaves the gradients alone.
  double evaluated_loss(Replica& replica, const batches::Batch& batch) {
    const auto got = run_to_end(loop_, replica.evaluate(batch));
    return got->loss_sum / static_cast<double>(got->samples);
  }

  base::VirtualLoop loop_;
};

TEST_F(ReferenceTest, GradientsAreFiniteDifferences) {
  for (const Model& model : {find_model("softmax", kSmall, 5).value(), two_layers()}) {
    const auto replica = make(model);
    const batches::Batch batch = random_batch(kSmall, 6, 5, 11);
    loss(*replica, batch);
    const auto parameters = replica->arena().parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const float kept = parameters[i];
      const float step = 1.0F / 128;
      parameters[i] = kept + step;
      const double above = evaluated_loss(*replica, batch);
      parameters[i] = kept - step;
      const double below = evaluated_loss(*replica, batch);
      const double span = double{kept + step} - double{kept - step};
      parameters[i] = kept;
      EXPECT_NEAR(replica->arena().gradients()[i], (above - below) / span, 2e-4)
          << "parameter " << i;
    }
  }
}

TEST_F(ReferenceTest, ReportsEveryViewOnceInBackwardOrder) {
  const Model model = two_layers();
  const auto replica = make(model);
  Heard heard(loop_);
  const auto got =
      run_to_end(loop_, replica->forward_backward(random_batch(kSmall, 3, 5, 1), heard));
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(heard.views, model.backward_order());
  EXPECT_EQ(heard.views, (std::vector<std::size_t>{3, 2, 1, 0}));
  EXPECT_EQ(got->samples, 3U);
}

TEST_F(ReferenceTest, OverwritesGradientsAndRepeatsBitForBit) {
  const auto replica = make(two_layers());
  const batches::Batch batch = random_batch(kSmall, 9, 5, 2);
  const double first_loss = loss(*replica, batch);
  const std::vector<float> first(replica->arena().gradients().begin(),
                                 replica->arena().gradients().end());
  EXPECT_EQ(loss(*replica, batch), first_loss);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), replica->arena().gradients().begin()));
}

TEST_F(ReferenceTest, AThreadGivesTheSameBits) {
  const Model model = two_layers();
  const auto here = make(model);
  const batches::Batch batch = random_batch(kSmall, 9, 5, 2);
  const double here_loss = loss(*here, batch);
  base::RealLoop real;
  auto there = make_reference(real, std::make_unique<ThreadWorker>(real), model).value();
  there->initialize(3);
  Heard heard(real);
  const auto got = run_to_end(real, there->forward_backward(batch, heard));
  EXPECT_EQ(got->loss, here_loss);
  EXPECT_EQ(heard.views, model.backward_order());
  EXPECT_TRUE(std::equal(here->arena().gradients().begin(), here->arena().gradients().end(),
                         there->arena().gradients().begin()));
}

TEST_F(ReferenceTest, EvaluatesWhatItWasTaught) {
  // Only the bias speaks: everything is class 3.
  const auto replica = make(find_model("softmax", kSmall, 5).value());
  const ParameterView& bias = replica->arena().views()[1];
  for (float& value : replica->arena().parameters()) value = 0;
  replica->arena().parameters()[bias.offset + 3] = 4;
  batches::Batch batch = random_batch(kSmall, 10, 5, 4);
  batch.labels = {3, 3, 3, 0, 1, 2, 4, 3, 0, 0};
  const auto got = run_to_end(loop_, replica->evaluate(batch));
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->samples, 10U);
  EXPECT_EQ(got->correct, 4U);
  const double log_sum = std::log(std::exp(4.0) + 4);
  EXPECT_NEAR(got->loss_sum, 10 * log_sum - 4 * 4, 1e-9);
}

TEST_F(ReferenceTest, AnInfiniteWeightGivesALossThatIsNoNumber) {
  const auto replica = make(find_model("softmax", kSmall, 5).value());
  replica->arena().parameters()[0] = INFINITY;
  EXPECT_FALSE(std::isfinite(loss(*replica, random_batch(kSmall, 4, 5, 4))));
}

TEST_F(ReferenceTest, RefusesBatchesThatDoNotFit) {
  const auto replica = make(find_model("softmax", kSmall, 5).value());
  Heard heard(loop_);
  const auto refused = [&](const batches::Batch& batch, const char* part) {
    const auto got = run_to_end(loop_, replica->forward_backward(batch, heard));
    ASSERT_FALSE(got.has_value());
    EXPECT_EQ(got.error().kind, base::ErrorKind::invalid_argument);
    EXPECT_THAT(got.error().message, testing::HasSubstr(part));
    EXPECT_FALSE(run_to_end(loop_, replica->evaluate(batch)).has_value());
  };
  batches::Batch batch = random_batch(kSmall, 4, 5, 4);
  batch.labels[2] = 5;
  refused(batch, "label 5 of sample 2");
  batch.labels[2] = -1;
  refused(batch, "label -1");
  refused(random_batch({2, 4, 3}, 4, 5, 4), "2x4x3");
  batch = random_batch(kSmall, 4, 5, 4);
  batch.pixels.pop_back();
  refused(batch, "95 for 4 samples");
  refused(random_batch(kSmall, 0, 5, 4), "no samples");
  EXPECT_TRUE(heard.views.empty());
}

TEST_F(ReferenceTest, DoesNotPretendToComputeConvolutions) {
  const Model lenet = find_model("lenet", {1, 28, 28}, 10).value();
  const auto replica = make_reference(loop_, std::make_unique<InlineWorker>(), lenet);
  ASSERT_FALSE(replica.has_value());
  EXPECT_EQ(replica.error().kind, base::ErrorKind::unavailable);
}

TEST_F(ReferenceTest, HasNoGeneratorState) {
  const auto replica = make(two_layers());
  EXPECT_EQ(replica->generator_state(), "");
  EXPECT_TRUE(replica->set_generator_state("").has_value());
  EXPECT_FALSE(replica->set_generator_state("x").has_value());
}

}  // namespace
}  // namespace dlobd::compute
