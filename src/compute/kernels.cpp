#include "compute/kernels.h"

#include <cmath>
#include <cstddef>

#include "base/check.h"
#include "compute/upper_half.h"
#include "compute/vectorize.h"

namespace dlobd::compute {
namespace {

DLOBD_CLONES void add_loop(float* sum, const float* value, std::size_t size) {
  DLOBD_VECTORIZE
  for (std::size_t i = 0; i < size; ++i) sum[i] += value[i];
}

DLOBD_CLONES void take_loop(float* sum, float* residual, std::size_t size) {
  DLOBD_VECTORIZE
  for (std::size_t i = 0; i < size; ++i) {
    sum[i] += residual[i];
    residual[i] = 0;
  }
}

DLOBD_CLONES void scale_loop(float* value, float factor, std::size_t size) {
  DLOBD_VECTORIZE
  for (std::size_t i = 0; i < size; ++i) value[i] *= factor;
}

DLOBD_CLONES void divide_loop(float* value, float divisor, std::size_t size) {
  DLOBD_VECTORIZE
  for (std::size_t i = 0; i < size; ++i) value[i] /= divisor;
}

DLOBD_CLONES void sgd_loop(float* parameters, const float* gradients, float* velocity, float rate,
                           float momentum, float decay, std::size_t size) {
  DLOBD_VECTORIZE
  for (std::size_t i = 0; i < size; ++i) {
    const float v = momentum * velocity[i] + rate * (gradients[i] + decay * parameters[i]);
    velocity[i] = v;
    parameters[i] -= v;
  }
}

DLOBD_CLONES void adagrad_loop(float* parameters, const float* gradients, float* accumulator,
                               float rate, std::size_t size) {
  DLOBD_VECTORIZE
  for (std::size_t i = 0; i < size; ++i) {
    const float g = gradients[i];
    const float a = accumulator[i] + g * g;
    accumulator[i] = a;
    parameters[i] -= rate * g / std::sqrt(a);
  }
}

DLOBD_CLONES void truncate_loop(std::uint16_t* upper, const float* value, std::size_t size) {
  DLOBD_VECTORIZE
  for (std::size_t i = 0; i < size; ++i) upper[i] = truncated(value[i]);
}

DLOBD_CLONES void widen_loop(float* value, const std::uint16_t* upper, std::size_t size) {
  DLOBD_VECTORIZE
  for (std::size_t i = 0; i < size; ++i) value[i] = widened(upper[i]);
}

DLOBD_CLONES void add_widened_loop(float* sum, const std::uint16_t* value, std::size_t size) {
  DLOBD_VECTORIZE
  for (std::size_t i = 0; i < size; ++i) sum[i] += widened(value[i]);
}

DLOBD_CLONES void add_truncated_loop(std::uint16_t* sum, const std::uint16_t* value,
                                     std::size_t size) {
  DLOBD_VECTORIZE
  for (std::size_t i = 0; i < size; ++i) sum[i] = truncated(widened(sum[i]) + widened(value[i]));
}

class CpuKernels final : public Kernels {
 public:
  void add(std::span<float> sum, std::span<const float> value) const override {
    CHECK(sum.size() == value.size(), "add of {} and {} elements", sum.size(), value.size());
    add_loop(sum.data(), value.data(), sum.size());
  }
  void scale(std::span<float> value, float factor) const override {
    scale_loop(value.data(), factor, value.size());
  }
  void divide(std::span<float> value, float divisor) const override {
    divide_loop(value.data(), divisor, value.size());
  }
  void sgd(std::span<float> parameters, std::span<const float> gradients, std::span<float> momentum,
           SgdStep step) const override {
    CHECK(parameters.size() == gradients.size() && parameters.size() == momentum.size(),
          "sgd of {} parameters, {} gradients, {} momenta", parameters.size(), gradients.size(),
          momentum.size());
    sgd_loop(parameters.data(), gradients.data(), momentum.data(), step.learning_rate,
             step.momentum, step.weight_decay, parameters.size());
  }
  void adagrad(std::span<float> parameters, std::span<const float> gradients,
               std::span<float> accumulator, float learning_rate) const override {
    CHECK(parameters.size() == gradients.size() && parameters.size() == accumulator.size(),
          "adagrad of {} parameters, {} gradients, {} accumulators", parameters.size(),
          gradients.size(), accumulator.size());
    adagrad_loop(parameters.data(), gradients.data(), accumulator.data(), learning_rate,
                 parameters.size());
  }
  void truncate(std::span<std::uint16_t> upper, std::span<const float> value) const override {
    CHECK(upper.size() == value.size(), "truncate of {} to {}", value.size(), upper.size());
    truncate_loop(upper.data(), value.data(), value.size());
  }
  void widen(std::span<float> value, std::span<const std::uint16_t> upper) const override {
    CHECK(upper.size() == value.size(), "widen of {} to {}", upper.size(), value.size());
    widen_loop(value.data(), upper.data(), value.size());
  }
  void add_widened(std::span<float> sum, std::span<const std::uint16_t> value) const override {
    CHECK(sum.size() == value.size(), "add of {} and {} elements", sum.size(), value.size());
    add_widened_loop(sum.data(), value.data(), sum.size());
  }
  void add_truncated(std::span<std::uint16_t> sum,
                     std::span<const std::uint16_t> value) const override {
    CHECK(sum.size() == value.size(), "add of {} and {} elements", sum.size(), value.size());
    add_truncated_loop(sum.data(), value.data(), sum.size());
  }
  void take(std::span<float> sum, std::span<float> residual) const override {
    CHECK(sum.size() == residual.size(), "take of {} to {}", residual.size(), sum.size());
    take_loop(sum.data(), residual.data(), sum.size());
  }
  void round(WireElement element, std::span<std::uint16_t> wire, std::span<float> value,
             std::span<float> residual) const override {
    CHECK(wire.size() == value.size(), "round of {} to {}", value.size(), wire.size());
    CHECK(residual.empty() || residual.size() == value.size(), "a residual of {} for {}",
          residual.size(), value.size());
    round_elements(element, wire.data(), value.data(), residual.empty() ? nullptr : residual.data(),
                   value.size());
  }
  void decode(WireElement element, std::span<float> value,
              std::span<const std::uint16_t> wire) const override {
    CHECK(wire.size() == value.size(), "decode of {} to {}", wire.size(), value.size());
    decode_elements(element, value.data(), wire.data(), value.size());
  }
  void add_decoded(WireElement element, std::span<float> sum,
                   std::span<const std::uint16_t> wire) const override {
    CHECK(sum.size() == wire.size(), "add of {} and {} elements", sum.size(), wire.size());
    add_elements(element, sum.data(), wire.data(), sum.size());
  }
};

class CountedKernels final : public Kernels {
 public:
  void add(std::span<float> /*sum*/, std::span<const float> /*value*/) const override {}
  void scale(std::span<float> /*value*/, float /*factor*/) const override {}
  void divide(std::span<float> /*value*/, float /*divisor*/) const override {}
  void sgd(std::span<float> /*parameters*/, std::span<const float> /*gradients*/,
           std::span<float> /*momentum*/, SgdStep /*step*/) const override {}
  void adagrad(std::span<float> /*parameters*/, std::span<const float> /*gradients*/,
               std::span<float> /*accumulator*/, float /*learning_rate*/) const override {}
  void truncate(std::span<std::uint16_t> /*upper*/,
                std::span<const float> /*value*/) const override {}
  void widen(std::span<float> /*value*/, std::span<const std::uint16_t> /*upper*/) const override {}
  void add_widened(std::span<float> /*sum*/,
                   std::span<const std::uint16_t> /*value*/) const override {}
  void add_truncated(std::span<std::uint16_t> /*sum*/,
                     std::span<const std::uint16_t> /*value*/) const override {}
  void take(std::span<float> /*sum*/, std::span<float> /*residual*/) const override {}
  void round(WireElement /*element*/, std::span<std::uint16_t> /*wire*/, std::span<float> /*value*/,
             std::span<float> /*residual*/) const override {}
  void decode(WireElement /*element*/, std::span<float> /*value*/,
              std::span<const std::uint16_t> /*wire*/) const override {}
  void add_decoded(WireElement /*element*/, std::span<float> /*sum*/,
                   std::span<const std::uint16_t> /*wire*/) const override {}
};

}  // namespace

const Kernels& cpu_kernels() {
  static const CpuKernels kernels;
  return kernels;
}

const Kernels& counted_kernels() {
  static const CountedKernels kernels;
  return kernels;
}

}  // namespace dlobd::compute
