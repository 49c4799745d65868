#include "compute/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "compute/check_batch.h"
#include "compute/model_replica.h"

namespace dlobd::compute {
namespace {

// The arithmetic, without loop or worker. Activations of the whole batch, layer by layer, row by
// row.
class Network {
 public:
  // Both outlive it.
  Network(const Model& model, const ParameterArena& arena) : model_(model), arena_(arena) {}

  void forward(const batches::Batch& batch) {
    activations_.resize(model_.layers.size() + 1);
    std::vector<float>& input = activations_.front();
    input.resize(batch.pixels.size());
    for (std::size_t i = 0; i < input.size(); ++i) {
      input[i] = static_cast<float>(batch.pixels[i]) * model_.input_scale;
    }
    for (std::size_t l = 0; l < model_.layers.size(); ++l) {
      const Layer& layer = model_.layers[l];
      activations_[l + 1].resize(batch.size() * static_cast<std::size_t>(layer.outputs()));
      if (layer.kind == LayerKind::relu) {
        std::transform(activations_[l].begin(), activations_[l].end(), activations_[l + 1].begin(),
                       [](float value) { return std::max(value, 0.0F); });
      } else {
        multiply(layer, batch.size(), activations_[l], activations_[l + 1]);
      }
    }
  }

  // After forward(). The mean loss; leaves the gradient of the outputs in `delta_`.
  double loss(const batches::Batch& batch) {
    const auto classes = static_cast<std::size_t>(model_.classes);
    const float share = 1.0F / static_cast<float>(batch.size());
    delta_.resize(batch.size() * classes);
    double sum = 0;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const float* scores = activations_.back().data() + i * classes;
      const auto label = static_cast<std::size_t>(batch.labels[i]);
      const float top = *std::max_element(scores, scores + classes);
      double total = 0;
      for (std::size_t c = 0; c < classes; ++c) total += std::exp(double{scores[c]} - top);
      for (std::size_t c = 0; c < classes; ++c) {
        const double probability = std::exp(double{scores[c]} - top) / total;
        const double wanted = c == label ? 1.0 : 0.0;
        delta_[i * classes + c] = static_cast<float>(probability - wanted) * share;
      }
      sum += std::log(total) - (double{scores[label]} - top);
    }
    return sum / static_cast<double>(batch.size());
  }

  // After loss(). Calls ready(view) for each gradient, bias before weight, last layer first.
  template <class Ready>
  void backward(std::size_t samples, const Ready& ready) {
    for (std::size_t l = model_.layers.size(); l-- > 0;) {
      const Layer& layer = model_.layers[l];
      const std::vector<float>& input = activations_[l];
      if (layer.kind == LayerKind::relu) {
        for (std::size_t i = 0; i < delta_.size(); ++i) delta_[i] = input[i] > 0 ? delta_[i] : 0;
        continue;
      }
      bias_gradient(layer, samples);
      ready(static_cast<std::size_t>(layer.bias));
      weight_gradient(layer, samples, input);
      ready(static_cast<std::size_t>(layer.weight));
      if (l > 0) pass_down(layer, samples);
    }
  }

  [[nodiscard]] std::uint64_t correct(const batches::Batch& batch) const {
    const auto classes = static_cast<std::size_t>(model_.classes);
    std::uint64_t correct = 0;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const float* scores = activations_.back().data() + i * classes;
      const auto best = std::max_element(scores, scores + classes) - scores;
      correct += best == batch.labels[i] ? 1 : 0;
    }
    return correct;
  }

 private:
  [[nodiscard]] float* at(std::span<float> buffer, std::int64_t view) const {
    return buffer.data() + arena_.views().at(static_cast<std::size_t>(view)).offset;
  }

  // output[i][o] = bias[o] + sum over k, rising, of input[i][k] * weight[o][k]
  void multiply(const Layer& layer, std::size_t samples, const std::vector<float>& input,
                std::vector<float>& output) const {
    const auto inputs = static_cast<std::size_t>(layer.inputs());
    const auto outputs = static_cast<std::size_t>(layer.outputs());
    const float* weight = at(arena_.parameters(), layer.weight);
    const float* bias = at(arena_.parameters(), layer.bias);
    for (std::size_t i = 0; i < samples; ++i) {
      for (std::size_t o = 0; o < outputs; ++o) {
        float sum = bias[o];
        for (std::size_t k = 0; k < inputs; ++k)
          sum += input[i * inputs + k] * weight[o * inputs + k];
        output[i * outputs + o] = sum;
      }
    }
  }

  void bias_gradient(const Layer& layer, std::size_t samples) {
    const auto outputs = static_cast<std::size_t>(layer.outputs());
    float* gradient = at(arena_.gradients(), layer.bias);
    std::fill_n(gradient, outputs, 0.0F);
    for (std::size_t i = 0; i < samples; ++i) {
      for (std::size_t o = 0; o < outputs; ++o) gradient[o] += delta_[i * outputs + o];
    }
  }

  void weight_gradient(const Layer& layer, std::size_t samples, const std::vector<float>& input) {
    const auto inputs = static_cast<std::size_t>(layer.inputs());
    const auto outputs = static_cast<std::size_t>(layer.outputs());
    float* gradient = at(arena_.gradients(), layer.weight);
    std::fill_n(gradient, inputs * outputs, 0.0F);
    for (std::size_t i = 0; i < samples; ++i) {
      for (std::size_t o = 0; o < outputs; ++o) {
        const float delta = delta_[i * outputs + o];
        for (std::size_t k = 0; k < inputs; ++k) {
          gradient[o * inputs + k] += delta * input[i * inputs + k];
        }
      }
    }
  }

  // Turns the gradient of a layer's outputs into that of its inputs.
  void pass_down(const Layer& layer, std::size_t samples) {
    const auto inputs = static_cast<std::size_t>(layer.inputs());
    const auto outputs = static_cast<std::size_t>(layer.outputs());
    const float* weight = at(arena_.parameters(), layer.weight);
    std::vector<float> below(samples * inputs, 0.0F);
    for (std::size_t i = 0; i < samples; ++i) {
      for (std::size_t o = 0; o < outputs; ++o) {
        const float delta = delta_[i * outputs + o];
        for (std::size_t k = 0; k < inputs; ++k) {
          below[i * inputs + k] += delta * weight[o * inputs + k];
        }
      }
    }
    delta_ = std::move(below);
  }

  const Model& model_;
  const ParameterArena& arena_;
  std::vector<std::vector<float>> activations_;
  std::vector<float> delta_;
};

class Reference final : public ModelReplica {
 public:
  Reference(base::Loop& loop, std::unique_ptr<Worker> worker, const Model& model)
      : ModelReplica(model), loop_(loop), network_(model_, arena_), worker_(std::move(worker)) {}

  base::Task<base::Result<StepResult>> forward_backward(const batches::Batch& batch,
                                                        GradientSink& sink) override {
    auto checked = check_batch(model_, batch);
    DLOBD_CO_CHECK(checked);
    StepResult result;
    result.samples = batch.size();
    base::UniqueFunction<void()> work = [this, &batch, &sink, &result] {
      const base::Time start = base::steady_now();
      network_.forward(batch);
      result.loss = network_.loss(batch);
      network_.backward(batch.size(), [this, &sink](std::size_t view) {
        loop_.post([&sink, view] { sink.gradient_ready(view); });
      });
      result.compute = base::steady_now() - start;
    };
    co_await worker_->run(std::move(work));
    co_await loop_.yield();  // lets the sink hear of every gradient first, wherever the worker ran
    co_return result;
  }

  base::Task<base::Result<Evaluation>> evaluate(const batches::Batch& batch) override {
    auto checked = check_batch(model_, batch);
    DLOBD_CO_CHECK(checked);
    Evaluation result;
    result.samples = batch.size();
    base::UniqueFunction<void()> work = [this, &batch, &result] {
      network_.forward(batch);
      result.loss_sum = network_.loss(batch) * static_cast<double>(batch.size());
      result.correct = network_.correct(batch);
    };
    co_await worker_->run(std::move(work));
    co_return result;
  }

 private:
  base::Loop& loop_;
  Network network_;
  std::unique_ptr<Worker> worker_;  // last: its thread uses the network
};

}  // namespace

base::Result<void> check_reference(const Model& model) {
  for (const Layer& layer : model.layers) {
    if (layer.kind != LayerKind::relu && layer.kind != LayerKind::fully_connected) {
      return base::fail(base::ErrorKind::unavailable,
                        fmt::format("the reference replica computes fully connected layers only: "
                                    "model {} (use softmax, or libtorch)",
                                    model.name));
    }
  }
  return {};
}

base::Result<std::unique_ptr<Replica>> make_reference(base::Loop& loop,
                                                      std::unique_ptr<Worker> worker,
                                                      const Model& model) {
  DLOBD_TRY_VOID(layers, check_reference(model));
  return std::make_unique<Reference>(loop, std::move(worker), model);
}

}  // namespace dlobd::compute
