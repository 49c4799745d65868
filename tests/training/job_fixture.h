// A small job for tests: softmax regression on a few hundred samples, computed by the reference
// replica.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compute/model.h"
#include "data/idx_fixture.h"
#include "metrics/run_recorder.h"
#include "records/dataset.h"
#include "storage/local.h"
#include "training/config.h"
#include "training/replicas.h"
#include "training/simulated_job.h"

namespace dlobd::training {

class JobFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    write_part("train", 203);
    write_part("t10k", 40);
    auto dataset = records::open_dataset(store_, folder_.path());
    ASSERT_TRUE(dataset.has_value()) << dataset.error().message;
    dataset_.emplace(std::move(*dataset));
    auto model = compute::find_model("softmax", dataset_->shape(), dataset_->classes());
    ASSERT_TRUE(model.has_value()) << model.error().message;
    model_ = *model;
  }

  // Samples of 6 x 6 pixels that can be told apart: every tenth pixel, from the label on, is
  // bright.
  void write_part(const std::string& part, std::uint32_t count) {
    auto images = testing::idx_images(count, 6, 6);
    const std::size_t header = images.size() - count * std::size_t{36};
    for (std::size_t i = 0; i < count * std::size_t{36}; ++i) {
      const std::size_t record = i / 36;
      const std::size_t pixel = i % 36;
      const bool bright = pixel % 10 == testing::idx_label(record);
      images[header + i] = static_cast<std::byte>((bright ? 150 : 0) + (7 * i + record) % 90);
    }
    testing::write_file(folder_.file(part + "-images-idx3-ubyte"), images);
    testing::write_file(folder_.file(part + "-labels-idx1-ubyte"), testing::idx_labels(count));
  }

  Config config(const std::string& stack, std::optional<std::string> behaviour, int ranks,
                const char* updates = nullptr) {
    Config config;
    stacks::Choices choices;
    if (updates != nullptr) choices.options["updates"] = updates;
    choices.behaviour = std::move(behaviour);
    auto design = stacks::make_design(stack, choices);
    EXPECT_TRUE(design.has_value());
    config.design = *design;
    config.network = NetworkKind::simulated;
    config.link.latency = std::chrono::microseconds(20);
    config.link.bandwidth_bytes_per_second = 1'000'000'000;
    config.link.send_per_message = std::chrono::microseconds(2);
    config.link.receive_per_message = std::chrono::microseconds(2);
    config.link.jitter = std::chrono::microseconds(50);
    config.peer_timeout = std::chrono::seconds(2);
    config.link.peer_timeout = config.peer_timeout;
    config.processor.kind = compute::Processor::Kind::reference;
    config.model = "softmax";
    config.data = folder_.path();
    config.ranks = ranks;
    config.batch.local = 8;
    config.batch.global = 8 * static_cast<std::uint64_t>(ranks);
    config.epochs = 2;
    config.optimizer.learning_rate.base = 0.05;
    config.out = folder_.path() + "/runs";
    return config;
  }

  // The job's passes take time, by a profile; about a third of them are cut off as stragglers from
  // the third step on, for the network jitters.
  void drop_stragglers(Config& config) {
    const std::string path = folder_.file("profile.json");
    const std::string profile =
        R"({"name": "slow", "model": "softmax", "batch_size": 8, "forward_ns": 100000,)"
        R"( "backward_ns": {"ip.weight": 50000, "ip.bias": 50000}})";
    testing::write_file(path, std::as_bytes(std::span(profile)));
    config.processor.kind = compute::Processor::Kind::profile;
    config.processor.profile_path = path;
    config.design.bigdl_drop.share = 0.3;
    config.design.bigdl_drop.warm_up = 0;
    config.design.bigdl_drop.every = 2;
  }

  std::unique_ptr<SimulatedJob> make_job(const Config& config,
                                         metrics::RunRecorder* recorder = nullptr) {
    auto replicas = Replicas::load(config, model_, "");
    EXPECT_TRUE(replicas.has_value());
    auto job = SimulatedJob::make(config, *dataset_, *replicas,
                                  [recorder](int rank, const metrics::Blob& blob) {
                                    if (recorder != nullptr) recorder->add(rank, blob);
                                  });
    EXPECT_TRUE(job.has_value());
    return std::move(*job);
  }

  static std::vector<float> parameters(SimulatedJob& job, int rank) {
    const auto span = job.arena(rank).parameters();
    return {span.begin(), span.end()};
  }

  static bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }

  testing::TempFolder folder_;
  storage::LocalStore store_;
  std::optional<records::Dataset> dataset_;
  compute::Model model_;
};

}  // namespace dlobd::training
