// One row of a model's table. Plain data: it crosses the border of the libtorch plug-in.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dlobd::compute {

enum class LayerKind : std::int32_t { convolution, max_pool, relu, fully_connected };

struct Layer {
  LayerKind kind = LayerKind::relu;
  // What goes in and comes out, one sample. A fully connected layer takes the input flattened,
  // channel by channel, row by row, and gives {outputs, 1, 1}.
  std::int64_t in_channels = 0, in_height = 0, in_width = 0;
  std::int64_t out_channels = 0, out_height = 0, out_width = 0;
  std::int64_t kernel = 0;  // square; convolution: stride 1, no padding; max_pool: stride = kernel
  // Views of the arena: weight {out, in, kernel, kernel} or {out, in}, bias {out}; -1 for none.
  std::int64_t weight = -1;
  std::int64_t bias = -1;
  [[nodiscard]] std::int64_t inputs() const { return in_channels * in_height * in_width; }
  [[nodiscard]] std::int64_t outputs() const { return out_channels * out_height * out_width; }
};

}  // namespace dlobd::compute
