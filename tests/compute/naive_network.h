// A model's table of layers in the plainest loops there are, in double precision: what libtorch's
// outputs and gradients are compared with.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "batches/source.h"
#include "compute/arena.h"
#include "compute/model.h"

namespace dlobd::compute {

class NaiveNetwork {
 public:
  NaiveNetwork(const Model& model, const ParameterArena& arena)
      : model_(model), arena_(arena), gradients(arena.size(), 0.0) {}

  // One sample; then its outputs.
  std::vector<double> forward(std::span<const std::uint8_t> pixels) {
    inputs_.clear();
    std::vector<double> values;
    for (const std::uint8_t pixel : pixels) values.push_back(pixel / 256.0);
    for (const Layer& layer : model_.layers) {
      inputs_.push_back(values);
      values = forward_layer(layer, values);
    }
    return values;
  }

  // Mean loss; fills `gradients`.
  double forward_backward(const batches::Batch& batch) {
    std::fill(gradients.begin(), gradients.end(), 0.0);
    double loss = 0;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      std::vector<double> delta = forward(sample(batch, i));
      const double score = delta[static_cast<std::size_t>(batch.labels[i])];
      double total = 0;
      for (double& value : delta) total += value = std::exp(value);
      for (double& value : delta) value /= total;
      loss += std::log(total) - score;
      delta[static_cast<std::size_t>(batch.labels[i])] -= 1;
      for (double& value : delta) value /= static_cast<double>(batch.size());
      for (std::size_t l = model_.layers.size(); l-- > 0;) delta = backward_layer(l, delta);
    }
    return loss / static_cast<double>(batch.size());
  }

  static std::span<const std::uint8_t> sample(const batches::Batch& batch, std::size_t index) {
    return std::span(batch.pixels).subspan(index * batch.shape.bytes(), batch.shape.bytes());
  }

 private:
  // Calls visit(output, input, weight) for each product of a layer with weights.
  template <class Visit>
  static void for_each_product(const Layer& layer, const Visit& visit) {
    if (layer.kind == LayerKind::fully_connected) {
      for (std::int64_t o = 0; o < layer.outputs(); ++o) {
        for (std::int64_t i = 0; i < layer.inputs(); ++i) visit(o, i, o * layer.inputs() + i);
      }
      return;
    }
    const std::int64_t k = layer.kernel;
    for (std::int64_t o = 0; o < layer.out_channels; ++o)
      for (std::int64_t y = 0; y < layer.out_height; ++y)
        for (std::int64_t x = 0; x < layer.out_width; ++x)
          for (std::int64_t c = 0; c < layer.in_channels; ++c)
            for (std::int64_t dy = 0; dy < k; ++dy)
              for (std::int64_t dx = 0; dx < k; ++dx)
                visit((o * layer.out_height + y) * layer.out_width + x,
                      (c * layer.in_height + y + dy) * layer.in_width + x + dx,
                      ((o * layer.in_channels + c) * k + dy) * k + dx);
  }

  [[nodiscard]] std::size_t offset(std::int64_t view) const {
    return arena_.views()[static_cast<std::size_t>(view)].offset;
  }

  // The place of the largest input of a window, the first of equals.
  static std::size_t top(const Layer& layer, const std::vector<double>& input,
                         std::int64_t output) {
    const std::int64_t x = output % layer.out_width;
    const std::int64_t y = output / layer.out_width % layer.out_height;
    const std::int64_t c = output / layer.out_width / layer.out_height;
    std::size_t best = 0;
    double value = -std::numeric_limits<double>::infinity();
    for (std::int64_t iy = y * layer.kernel; iy < std::min((y + 1) * layer.kernel, layer.in_height);
         ++iy) {
      for (std::int64_t ix = x * layer.kernel;
           ix < std::min((x + 1) * layer.kernel, layer.in_width); ++ix) {
        const auto place =
            static_cast<std::size_t>((c * layer.in_height + iy) * layer.in_width + ix);
        if (input[place] > value) {
          value = input[place];
          best = place;
        }
      }
    }
    return best;
  }

  [[nodiscard]] std::vector<double> forward_layer(const Layer& layer,
                                                  const std::vector<double>& input) const {
    std::vector<double> output(static_cast<std::size_t>(layer.outputs()));
    if (layer.kind == LayerKind::relu) {
      for (std::size_t i = 0; i < output.size(); ++i) output[i] = std::max(0.0, input[i]);
    } else if (layer.kind == LayerKind::max_pool) {
      for (std::size_t i = 0; i < output.size(); ++i) {
        output[i] = input[top(layer, input, static_cast<std::int64_t>(i))];
      }
    } else {
      const auto plane = static_cast<std::size_t>(layer.out_height * layer.out_width);
      for (std::size_t i = 0; i < output.size(); ++i) {
        output[i] = arena_.parameters()[offset(layer.bias) + i / plane];
      }
      const auto weights = arena_.parameters().subspan(offset(layer.weight));
      for_each_product(layer, [&](std::int64_t o, std::int64_t i, std::int64_t w) {
        output[static_cast<std::size_t>(o)] +=
            input[static_cast<std::size_t>(i)] * weights[static_cast<std::size_t>(w)];
      });
    }
    return output;
  }

  std::vector<double> backward_layer(std::size_t l, const std::vector<double>& delta) {
    const Layer& layer = model_.layers[l];
    const std::vector<double>& input = inputs_[l];
    std::vector<double> below(input.size(), 0.0);
    if (layer.kind == LayerKind::relu) {
      for (std::size_t i = 0; i < below.size(); ++i) below[i] = input[i] > 0 ? delta[i] : 0;
    } else if (layer.kind == LayerKind::max_pool) {
      for (std::size_t i = 0; i < delta.size(); ++i) {
        below[top(layer, input, static_cast<std::int64_t>(i))] += delta[i];
      }
    } else {
      const auto plane = static_cast<std::size_t>(layer.out_height * layer.out_width);
      for (std::size_t i = 0; i < delta.size(); ++i) {
        gradients[offset(layer.bias) + i / plane] += delta[i];
      }
      const auto weights = arena_.parameters().subspan(offset(layer.weight));
      const std::size_t first = offset(layer.weight);
      for_each_product(layer, [&](std::int64_t o, std::int64_t i, std::int64_t w) {
        const double d = delta[static_cast<std::size_t>(o)];
        gradients[first + static_cast<std::size_t>(w)] += d * input[static_cast<std::size_t>(i)];
        below[static_cast<std::size_t>(i)] += d * weights[static_cast<std::size_t>(w)];
      });
    }
    return below;
  }

  const Model& model_;
  const ParameterArena& arena_;
  std::vector<std::vector<double>> inputs_;

 public:
  std::vector<double> gradients;
};

}  // namespace dlobd::compute
