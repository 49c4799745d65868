#include "compute/torch/model.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include "compute/torch/network.h"

namespace dlobd::compute {
namespace {

at::TensorOptions floats() {
  return at::TensorOptions().dtype(at::kFloat);
}

// The switches are libtorch's, for the whole process: set before each computation, so that models
// on different processors can live in one process, one computing at a time.
void set_switches(const TorchModelSpec& spec) {
  at::Context& context = at::globalContext();
  if (spec.gpu) {
    context.setUserEnabledCuDNN(spec.accelerated);
    context.setDeterministicCuDNN(true);
    context.setBenchmarkCuDNN(false);
    // float32 means float32.
    context.setAllowTF32CuDNN(false);
    context.setAllowTF32CuBLAS(false);
  } else {
    context.setUserEnabledMkldnn(spec.accelerated);
    if (at::get_num_threads() != spec.threads) at::set_num_threads(spec.threads);
  }
}

class Model final : public TorchModel, private NetworkSink {
 public:
  explicit Model(const TorchModelSpec& spec)
      : spec_(spec),
        device_(spec.gpu ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU)),
        bound_(spec.parameters, spec.parameters + spec.parameter_count),
        network_(std::vector<Layer>(spec.layers, spec.layers + spec.layer_count), device_) {
    std::int64_t total = 0;
    for (const TorchParameter& parameter : bound_) total += parameter.size;
    if (spec.gpu) {
      const auto pinned = floats().pinned_memory(true);
      staged_parameters_ = at::empty({total}, pinned);
      staged_gradients_ = at::empty({total}, pinned);
      device_parameters_ = at::empty({total}, floats().device(device_));
      device_gradients_ = at::empty({total}, floats().device(device_));
    }
    std::int64_t offset = 0;
    for (const TorchParameter& parameter : bound_) {
      const at::IntArrayRef shape(parameter.shape, static_cast<std::size_t>(parameter.dimensions));
      NetworkParameter tensors;
      if (spec.gpu) {
        tensors.value = device_parameters_.narrow(0, offset, parameter.size).view(shape);
        tensors.gradient = device_gradients_.narrow(0, offset, parameter.size).view(shape);
      } else {
        tensors.value = at::from_blob(parameter.parameter, shape, floats());
        tensors.gradient = at::from_blob(parameter.gradient, shape, floats());
      }
      parameters_.push_back(std::move(tensors));
      offsets_.push_back(offset);
      offset += parameter.size;
    }
  }

  bool forward_backward(const TorchBatch& batch, TorchGradientSink& sink, double& loss) override {
    return guarded([&] {
      take_parameters();
      const at::Tensor scores = network_.forward(input(batch), parameters_, true);
      const at::Tensor labels = labels_of(batch);
      const at::Tensor logarithms = at::log_softmax(scores, 1);
      const at::Tensor loss_on_device = logarithms.gather(1, labels).mean();
      at::Tensor delta = logarithms.exp();
      delta.scatter_add_(1, labels, at::full_like(labels, -1, delta.options()));
      delta.div_(static_cast<double>(batch.size));
      sink_ = &sink;
      network_.backward(std::move(delta), parameters_, *this);
      loss = -static_cast<double>(loss_on_device.item<float>());
    });
  }

  bool evaluate(const TorchBatch& batch, double& loss_sum, std::int64_t& correct) override {
    return guarded([&] {
      take_parameters();
      const at::Tensor scores = network_.forward(input(batch), parameters_, false);
      const at::Tensor labels = labels_of(batch);
      const at::Tensor picked = at::log_softmax(scores, 1).gather(1, labels);
      loss_sum = -picked.sum(at::kDouble).item<double>();
      correct = scores.argmax(1, true).eq(labels).sum().item<std::int64_t>();
    });
  }

  bool outputs(const TorchBatch& batch, float* values) override {
    return guarded([&] {
      take_parameters();
      const at::Tensor scores = network_.forward(input(batch), parameters_, false);
      at::from_blob(values, scores.sizes(), floats()).copy_(scores);
    });
  }

  [[nodiscard]] const char* error() const override { return error_.c_str(); }

 private:
  template <class Work>
  bool guarded(const Work& work) {
    try {
      const c10::InferenceMode inference;
      set_switches(spec_);
      work();
      return true;
    } catch (const c10::Error& error) {
      error_ = error.what_without_backtrace();
    } catch (const std::exception& error) {
      error_ = error.what();
    }
    error_ = error_.substr(0, error_.find('\n'));
    return false;
  }

  // Bytes travel to the device; there they become numbers, in channels_last. A tensor with one
  // channel counts as being in every layout, so the layout is given when the memory is taken.
  at::Tensor input(const TorchBatch& batch) const {
    const std::array<std::int64_t, 4> shape = {batch.size, spec_.channels, spec_.height,
                                               spec_.width};
    const at::Tensor bytes = at::from_blob(const_cast<std::uint8_t*>(batch.pixels), shape,
                                           at::TensorOptions().dtype(at::kByte));
    at::Tensor numbers = at::empty(shape, floats().device(device_), at::MemoryFormat::ChannelsLast);
    numbers.copy_(spec_.gpu ? bytes.to(device_) : bytes);
    return numbers.mul_(spec_.input_scale);
  }

  at::Tensor labels_of(const TorchBatch& batch) const {
    const at::Tensor labels = at::from_blob(const_cast<std::int64_t*>(batch.labels),
                                            {batch.size, 1}, at::TensorOptions().dtype(at::kLong));
    return spec_.gpu ? labels.to(device_) : labels;
  }

  void take_parameters() {
    if (!spec_.gpu) return;
    for (std::size_t i = 0; i < bound_.size(); ++i) {
      std::memcpy(staged_parameters_.data_ptr<float>() + offsets_[i], bound_[i].parameter,
                  static_cast<std::size_t>(bound_[i].size) * sizeof(float));
    }
    device_parameters_.copy_(staged_parameters_, true);
  }

  void gradient_ready(std::size_t parameter) override {
    if (spec_.gpu) {
      const TorchParameter& bound = bound_[parameter];
      at::Tensor staged = staged_gradients_.narrow(0, offsets_[parameter], bound.size);
      staged.copy_(device_gradients_.narrow(0, offsets_[parameter], bound.size));  // waits
      std::memcpy(bound.gradient, staged.data_ptr<float>(),
                  static_cast<std::size_t>(bound.size) * sizeof(float));
    }
    sink_->gradient_ready(parameter);
  }

  TorchModelSpec spec_;  // its pointers are not used after construction
  at::Device device_;
  std::vector<TorchParameter> bound_;
  std::vector<NetworkParameter> parameters_;
  std::vector<std::int64_t> offsets_;
  at::Tensor staged_parameters_, staged_gradients_;  // pinned; GPU only
  at::Tensor device_parameters_, device_gradients_;  // GPU only
  Network network_;
  TorchGradientSink* sink_ = nullptr;
  std::string error_;
};

}  // namespace

std::unique_ptr<TorchModel> make_aten_model(const TorchModelSpec& spec) {
  set_switches(spec);
  return std::make_unique<Model>(spec);
}

}  // namespace dlobd::compute
