// The GPU path on a GPU: gradients against the CPU's, every processor timed. Built on demand and
// run by `make check-gpu`; it fails, rather than passes, where there is no GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "compute/plugin.h"
#include "compute/replica_runs.h"
#include "compute/torch_replica.h"

namespace dlobd::compute {
namespace {

constexpr records::Shape kMnist = {1, 28, 28};
constexpr const char* kProcessors[] = {"cpu", "cpu+onednn", "gpu", "gpu+cudnn"};

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    PluginOptions options;
    options.folder = DLOBD_PLUGIN_FOLDER;
    options.processor = Processor::parse("gpu+cudnn").value();
    static const base::Result<TorchPlugin> loaded = load_torch(options);
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
    plugin_ = *loaded;
  }

  std::unique_ptr<Replica> make(const char* processor, const Model& model) {
    plugin_.processor = Processor::parse(processor).value();
    auto replica = make_torch_replica(loop_, std::make_unique<InlineWorker>(), plugin_, model);
    EXPECT_TRUE(replica.has_value()) << replica.error().message;
    (*replica)->initialize(7);
    return std::move(*replica);
  }

  TorchPlugin plugin_;
  base::VirtualLoop loop_;
  Heard heard_{loop_};
};

TEST_F(GpuTest, ComputesTheCpusGradients) {
  for (const char* name : {"softmax", "lenet"}) {
    const Model model = find_model(name, kMnist, 10).value();
    const auto cpu = make("cpu", model);
    const batches::Batch batch = random_batch(kMnist, 32, 10, 3);
    const auto want = run_to_end(loop_, cpu->forward_backward(batch, heard_));
    const auto want_counts = run_to_end(loop_, cpu->evaluate(batch));
    for (const char* processor : {"gpu", "gpu+cudnn"}) {
      const auto gpu = make(processor, model);
      heard_.views.clear();
      const auto got = run_to_end(loop_, gpu->forward_backward(batch, heard_));
      ASSERT_TRUE(got.has_value()) << got.error().message;
      EXPECT_EQ(heard_.views, model.backward_order());
      EXPECT_NEAR(got->loss, want->loss, 1e-4) << processor << " " << name;
      for (std::size_t i = 0; i < model.parameter_count(); ++i) {
        ASSERT_NEAR(gpu->arena().gradients()[i], cpu->arena().gradients()[i], 1e-4)
            << processor << " " << name << ", parameter " << i;
      }
      EXPECT_EQ(run_to_end(loop_, gpu->evaluate(batch))->correct, want_counts->correct);
    }
  }
}

TEST_F(GpuTest, RepeatsBitForBit) {
  const auto gpu = make("gpu+cudnn", find_model("lenet", kMnist, 10).value());
  const batches::Batch batch = random_batch(kMnist, 32, 10, 3);
  run_to_end(loop_, gpu->forward_backward(batch, heard_));
  const auto gradients = gpu->arena().gradients();
  const std::vector<float> first(gradients.begin(), gradients.end());
  run_to_end(loop_, gpu->forward_backward(batch, heard_));
  EXPECT_TRUE(std::equal(first.begin(), first.end(), gradients.begin()));
}

TEST_F(GpuTest, TimesEveryProcessor) {
  const Model model = find_model("lenet", kMnist, 10).value();
  const batches::Batch batch = random_batch(kMnist, 64, 10, 3);
  for (const char* processor : kProcessors) {
    const auto replica = make(processor, model);
    std::vector<base::Duration> times;
    for (int i = 0; i < 60; ++i) {
      const auto got = run_to_end(loop_, replica->forward_backward(batch, heard_));
      ASSERT_TRUE(got.has_value()) << got.error().message;
      if (i >= 10) times.push_back(got->compute);
    }
    std::sort(times.begin(), times.end());
    const double median_ns = static_cast<double>(times[times.size() / 2].count());
    std::printf("%-12s lenet, batch 64: median step %.3f ms, %.0f samples/s\n", processor,
                median_ns / 1e6, 64e9 / median_ns);
  }
  std::printf("on %s, CUDA %s, cuDNN %s, libtorch %s\n", plugin_.report.gpu.c_str(),
              plugin_.report.cuda.c_str(), plugin_.report.cudnn.c_str(),
              plugin_.report.libtorch.c_str());
}

}  // namespace
}  // namespace dlobd::compute
