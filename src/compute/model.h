// Models by name. A model is a table of layers, for one shape of samples and one number of classes;
// the parameters follow from the table, in forward order, weight before bias. The loss is the mean
// softmax cross entropy of the last layer's outputs. Layers are as Caffe defines them.
//
//   softmax  fc                                                     28x28: 7,850 parameters
//   lenet    conv 20, pool, conv 50, pool, fc 500, relu, fc 10      28x28: 431,080 parameters
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "compute/arena.h"
#include "compute/layer.h"
#include "records/reader.h"

namespace dlobd::compute {

struct Model {
  std::string name;
  records::Shape shape;
  std::int64_t classes = 0;
  float input_scale = 0.00390625F;  // 1/256: a pixel becomes a number in [0, 1)
  std::vector<Layer> layers;
  std::vector<ParameterSpec> parameters;
  [[nodiscard]] std::size_t parameter_count() const;
  // The views in the order in which every replica reports their gradients: last layer first, bias
  // before weight.
  [[nodiscard]] std::vector<std::size_t> backward_order() const;
};

std::vector<std::string> model_names();

// invalid_argument: an unknown name (with the nearest one), or samples too small for the layers.
base::Result<Model> find_model(std::string_view name, const records::Shape& shape,
                               std::int64_t classes);

// Caffe's xavier: weights uniform in [-s, s), s = sqrt(3 / fan_in); biases 0. Float arithmetic
// only: every kind of replica starts from the same bits. A phantom arena is left alone.
void initialize(const ParameterArena& arena, const Model& model, std::uint64_t seed);

}  // namespace dlobd::compute
