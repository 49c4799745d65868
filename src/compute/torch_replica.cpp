#include "compute/torch_replica.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "compute/check_batch.h"
#include "compute/model_replica.h"

namespace dlobd::compute {
namespace {

// Passes what the computing thread says on to the loop.
class ToLoop final : public TorchGradientSink {
 public:
  ToLoop(base::Loop& loop, GradientSink& sink) : loop_(loop), sink_(sink) {}
  void gradient_ready(std::size_t parameter) override {
    GradientSink& sink = sink_;
    loop_.post([&sink, parameter] { sink.gradient_ready(parameter); });
  }

 private:
  base::Loop& loop_;
  GradientSink& sink_;
};

base::Failure failed(const TorchModel& network) {
  return base::fail(base::ErrorKind::unavailable,
                    fmt::format("libtorch could not compute: {}", network.error()));
}

class TorchReplica final : public ModelReplica {
 public:
  TorchReplica(base::Loop& loop, std::unique_ptr<Worker> worker, const Model& model)
      : ModelReplica(model), loop_(loop), worker_(std::move(worker)) {}

  base::Result<void> bind(const TorchPlugin& plugin) {
    std::vector<TorchParameter> parameters;
    for (const ParameterView& view : arena_.views()) {
      TorchParameter parameter;
      parameter.parameter = arena_.parameters().data() + view.offset;
      parameter.gradient = arena_.gradients().data() + view.offset;
      parameter.dimensions = static_cast<std::int64_t>(view.shape.size());
      std::copy(view.shape.begin(), view.shape.end(), parameter.shape);
      parameter.size = static_cast<std::int64_t>(view.size);
      parameters.push_back(parameter);
    }
    TorchModelSpec spec;
    spec.layers = model_.layers.data();
    spec.layer_count = model_.layers.size();
    spec.parameters = parameters.data();
    spec.parameter_count = parameters.size();
    spec.channels = model_.shape.channels;
    spec.height = model_.shape.height;
    spec.width = model_.shape.width;
    spec.classes = model_.classes;
    spec.input_scale = model_.input_scale;
    spec.gpu = plugin.processor.is_gpu();
    spec.accelerated = plugin.processor.kind == Processor::Kind::cpu_onednn ||
                       plugin.processor.kind == Processor::Kind::gpu_cudnn;
    spec.threads = plugin.threads;
    std::array<char, 512> error{};
    network_.reset(plugin.interface->make_model(spec, error.data(), error.size()));
    if (network_ != nullptr) return {};
    return base::fail(
        base::ErrorKind::unavailable,
        fmt::format("libtorch cannot hold the model: {}: {}", model_.name, error.data()));
  }

  base::Task<base::Result<StepResult>> forward_backward(const batches::Batch& batch,
                                                        GradientSink& sink) override {
    auto checked = check_batch(model_, batch);
    DLOBD_CO_CHECK(checked);
    StepResult result;
    result.samples = batch.size();
    bool computed = false;
    ToLoop to_loop(loop_, sink);
    const TorchBatch raw = raw_batch(batch);
    base::UniqueFunction<void()> work = [this, &raw, &to_loop, &result, &computed] {
      const base::Time start = base::steady_now();
      computed = network_->forward_backward(raw, to_loop, result.loss);
      result.compute = base::steady_now() - start;
    };
    co_await worker_->run(std::move(work));
    co_await loop_.yield();  // lets the sink hear of every gradient first, wherever the worker ran
    if (!computed) co_return failed(*network_);
    co_return result;
  }

  base::Task<base::Result<Evaluation>> evaluate(const batches::Batch& batch) override {
    auto checked = check_batch(model_, batch);
    DLOBD_CO_CHECK(checked);
    Evaluation result;
    result.samples = batch.size();
    bool computed = false;
    const TorchBatch raw = raw_batch(batch);
    base::UniqueFunction<void()> work = [this, &raw, &result, &computed] {
      std::int64_t correct = 0;
      computed = network_->evaluate(raw, result.loss_sum, correct);
      result.correct = static_cast<std::uint64_t>(correct);
    };
    co_await worker_->run(std::move(work));
    if (!computed) co_return failed(*network_);
    co_return result;
  }

 private:
  static TorchBatch raw_batch(const batches::Batch& batch) {
    TorchBatch raw;
    raw.pixels = batch.pixels.data();
    raw.labels = batch.labels.data();
    raw.size = static_cast<std::int64_t>(batch.size());
    return raw;
  }

  base::Loop& loop_;
  std::unique_ptr<TorchModel> network_;  // before the arena goes
  std::unique_ptr<Worker> worker_;       // last: its thread uses all of the above
};

}  // namespace

base::Result<std::unique_ptr<Replica>> make_torch_replica(base::Loop& loop,
                                                          std::unique_ptr<Worker> worker,
                                                          const TorchPlugin& plugin,
                                                          const Model& model) {
  auto replica = std::make_unique<TorchReplica>(loop, std::move(worker), model);
  DLOBD_TRY_VOID(bound, replica->bind(plugin));
  return replica;
}

}  // namespace dlobd::compute
