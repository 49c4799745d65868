// A model's table of layers on ATen. The backward pass is written out, layer by layer, without
// autograd: each gradient goes straight to where it belongs, in one known order on every rank and
// with nothing to set up. Convolutions and pools run in channels_last layout.
// Threads: as TorchModel. Errors leave as exceptions of libtorch.
#pragma once

#include <ATen/Tensor.h>

#include <array>
#include <vector>

#include "compute/torch_model.h"

namespace dlobd::compute {

// One parameter's tensors. On a CPU they are views of the arena's own memory.
struct NetworkParameter {
  at::Tensor value;
  at::Tensor gradient;
};

// Told when a parameter's `gradient` holds its value.
class NetworkSink {
 public:
  virtual void gradient_ready(std::size_t parameter) = 0;

 protected:
  ~NetworkSink() = default;
};

class Network {
 public:
  Network(std::vector<Layer> layers, at::Device device);

  // The last layer's outputs {samples, classes}; keeps what backward() needs when `training`.
  at::Tensor forward(const at::Tensor& input, const std::vector<NetworkParameter>& parameters,
                     bool training);
  // After forward(): from the gradient of its outputs. Bias before weight, last layer first.
  void backward(at::Tensor delta, std::vector<NetworkParameter>& parameters, NetworkSink& sink);

 private:
  struct Kept {
    at::Tensor input;
    at::Tensor output;
    at::Tensor indices;  // where each pooled maximum was
  };

  void forward_layer(const Layer& layer, const std::vector<NetworkParameter>& parameters,
                     Kept& kept);

  std::vector<Layer> layers_;
  at::Device device_;
  std::vector<Kept> kept_;
};

}  // namespace dlobd::compute
