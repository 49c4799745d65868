// The arithmetic that exchanges and optimizers need, without libtorch. Element by element and
// without fused multiply-add, so that a result is the same bits under every instruction set.
// cpu_kernels() computes; counted_kernels() does nothing, for simulations that only count.
// Stateless: any thread. Spans of one call have equal sizes and do not overlap unless they are the
// same.
#pragma once

#include <cstdint>
#include <span>

#include "compute/wire_element.h"

namespace dlobd::compute {

struct SgdStep {
  float learning_rate = 0;  // already multiplied by the view's lr_multiplier
  float momentum = 0;
  float weight_decay = 0;  // already multiplied by the view's decay_multiplier
};

class Kernels {
 public:
  virtual ~Kernels() = default;
  // sum[i] += value[i]
  virtual void add(std::span<float> sum, std::span<const float> value) const = 0;
  // value[i] *= factor
  virtual void scale(std::span<float> value, float factor) const = 0;
  // value[i] /= divisor; rounds otherwise than scale(1 / divisor), unless that is exact
  virtual void divide(std::span<float> value, float divisor) const = 0;
  // Caffe's momentum, with the rate inside the buffer:
  //   v = momentum * v + rate * (g + decay * w);  w -= v
  virtual void sgd(std::span<float> parameters, std::span<const float> gradients,
                   std::span<float> momentum, SgdStep step) const = 0;
  // a += g * g;  w -= rate * g / sqrt(a)          (TensorFlow's Adagrad; a starts at 0.1)
  virtual void adagrad(std::span<float> parameters, std::span<const float> gradients,
                       std::span<float> accumulator, float learning_rate) const = 0;
  // BigDL's 16-bit element: the upper half of a float32, so rounded toward zero, high byte first in
  // memory.
  virtual void truncate(std::span<std::uint16_t> upper, std::span<const float> value) const = 0;
  virtual void widen(std::span<float> value, std::span<const std::uint16_t> upper) const = 0;
  // sum[i] += widened value[i]
  virtual void add_widened(std::span<float> sum, std::span<const std::uint16_t> value) const = 0;
  // sum[i] = truncated (widened sum[i] + widened value[i])
  virtual void add_truncated(std::span<std::uint16_t> sum,
                             std::span<const std::uint16_t> value) const = 0;
  // Elements of 16 bits with error feedback: a sender takes what it still owes, and rounds.
  // sum[i] += residual[i];  residual[i] = 0
  virtual void take(std::span<float> sum, std::span<float> residual) const = 0;
  // wire[i] = value[i] rounded; residual[i] += what that cost; value[i] = what is left. An empty
  // residual: nobody owes it.
  virtual void round(WireElement element, std::span<std::uint16_t> wire, std::span<float> value,
                     std::span<float> residual) const = 0;
  // value[i] = wire[i]
  virtual void decode(WireElement element, std::span<float> value,
                      std::span<const std::uint16_t> wire) const = 0;
  // sum[i] += wire[i]
  virtual void add_decoded(WireElement element, std::span<float> sum,
                           std::span<const std::uint16_t> wire) const = 0;
};

const Kernels& cpu_kernels();
const Kernels& counted_kernels();

}  // namespace dlobd::compute
