#include "compute/torch/network.h"

#include <ATen/Functions.h>

#include <utility>

namespace dlobd::compute {
namespace {

constexpr std::array<std::int64_t, 2> kNoPadding = {0, 0};
constexpr std::array<std::int64_t, 2> kOne = {1, 1};

// {samples, channels, height, width} in channels_last, whatever it was before.
at::Tensor as_image(const at::Tensor& values, const Layer& layer) {
  const at::Tensor image =
      values.view({values.size(0), layer.out_channels, layer.out_height, layer.out_width});
  return image.contiguous(at::MemoryFormat::ChannelsLast);
}

std::array<std::int64_t, 2> square(std::int64_t side) {
  return {side, side};
}

}  // namespace

Network::Network(std::vector<Layer> layers, at::Device device)
    : layers_(std::move(layers)), device_(device), kept_(layers_.size()) {}

void Network::forward_layer(const Layer& layer, const std::vector<NetworkParameter>& parameters,
                            Kept& kept) {
  const auto value = [&parameters](std::int64_t view) -> const at::Tensor& {
    return parameters[static_cast<std::size_t>(view)].value;
  };
  switch (layer.kind) {
    case LayerKind::convolution:
      kept.output = at::convolution(kept.input, value(layer.weight), value(layer.bias), kOne,
                                    kNoPadding, kOne, false, kNoPadding, 1);
      return;
    case LayerKind::max_pool: {
      const auto side = square(layer.kernel);
      std::tie(kept.output, kept.indices) =
          at::max_pool2d_with_indices(kept.input, side, side, kNoPadding, kOne, true);
      return;
    }
    case LayerKind::relu: kept.output = at::relu(kept.input); return;
    case LayerKind::fully_connected:
      // Channel by channel, so an image in channels_last is copied here.
      kept.input = kept.input.reshape({kept.input.size(0), layer.inputs()});
      kept.output = at::addmm(value(layer.bias), kept.input, value(layer.weight).t());
      return;
  }
}

at::Tensor Network::forward(const at::Tensor& input,
                            const std::vector<NetworkParameter>& parameters, bool training) {
  at::Tensor values = input;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    Kept kept;
    kept.input = values;
    forward_layer(layers_[l], parameters, kept);
    values = kept.output;
    if (training) kept_[l] = std::move(kept);
  }
  return values;
}

void Network::backward(at::Tensor delta, std::vector<NetworkParameter>& parameters,
                       NetworkSink& sink) {
  for (std::size_t l = layers_.size(); l-- > 0;) {
    const Layer& layer = layers_[l];
    const Kept kept = std::exchange(kept_[l], Kept());
    const auto weight_index = static_cast<std::size_t>(layer.weight);
    const auto bias_index = static_cast<std::size_t>(layer.bias);
    switch (layer.kind) {
      case LayerKind::relu:
        delta = at::threshold_backward(delta.view_as(kept.output), kept.output, 0);
        break;
      case LayerKind::max_pool: {
        const auto side = square(layer.kernel);
        delta = at::max_pool2d_with_indices_backward(as_image(delta, layer), kept.input, side, side,
                                                     kNoPadding, kOne, true, kept.indices);
        break;
      }
      case LayerKind::fully_connected: {
        delta = delta.view({delta.size(0), layer.outputs()});
        at::sum_out(parameters[bias_index].gradient, delta, 0);
        sink.gradient_ready(bias_index);
        at::mm_out(parameters[weight_index].gradient, delta.t(), kept.input);
        sink.gradient_ready(weight_index);
        if (l > 0) delta = delta.mm(parameters[weight_index].value);
        break;
      }
      case LayerKind::convolution: {
        const std::array<std::int64_t, 1> bias_sizes = {layer.out_channels};
        auto gradients = at::convolution_backward(
            as_image(delta, layer), kept.input, parameters[weight_index].value, bias_sizes, kOne,
            kNoPadding, kOne, false, kNoPadding, 1, {l > 0, true, true});
        parameters[bias_index].gradient.copy_(std::get<2>(gradients));
        sink.gradient_ready(bias_index);
        parameters[weight_index].gradient.copy_(std::get<1>(gradients));
        sink.gradient_ready(weight_index);
        delta = std::move(std::get<0>(gradients));
        break;
      }
    }
  }
}

}  // namespace dlobd::compute
