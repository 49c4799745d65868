#include "compute/model.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/nearest.h"
#include "base/random.h"

namespace dlobd::compute {
namespace {

// Adds layers to a model one after another; each takes what the last one gives.
class Builder {
 public:
  Builder(std::string name, const records::Shape& shape, std::int64_t classes)
      : channels_(shape.channels), height_(shape.height), width_(shape.width) {
    model_.name = std::move(name);
    model_.shape = shape;
    model_.classes = classes;
  }

  void convolution(const std::string& name, std::int64_t outputs, std::int64_t kernel) {
    Layer layer = next(LayerKind::convolution);
    layer.kernel = kernel;
    set_output(layer, outputs, height_ - kernel + 1, width_ - kernel + 1);
    add_parameters(layer, name, {outputs, layer.in_channels, kernel, kernel});
    model_.layers.push_back(layer);
  }

  // Caffe rounds the output up, so that a last window may hang over the edge.
  void max_pool(std::int64_t kernel) {
    Layer layer = next(LayerKind::max_pool);
    layer.kernel = kernel;
    set_output(layer, channels_, (height_ + kernel - 1) / kernel, (width_ + kernel - 1) / kernel);
    model_.layers.push_back(layer);
  }

  void relu() {
    Layer layer = next(LayerKind::relu);
    set_output(layer, channels_, height_, width_);
    model_.layers.push_back(layer);
  }

  void fully_connected(const std::string& name, std::int64_t outputs) {
    Layer layer = next(LayerKind::fully_connected);
    set_output(layer, outputs, 1, 1);
    add_parameters(layer, name, {outputs, layer.inputs()});
    model_.layers.push_back(layer);
  }

  // Every layer still had something to work on.
  [[nodiscard]] bool fits() const { return fits_; }
  Model take() { return std::move(model_); }

 private:
  [[nodiscard]] Layer next(LayerKind kind) const {
    Layer layer;
    layer.kind = kind;
    layer.in_channels = channels_;
    layer.in_height = height_;
    layer.in_width = width_;
    return layer;
  }

  void set_output(Layer& layer, std::int64_t channels, std::int64_t height, std::int64_t width) {
    fits_ = fits_ && height > 0 && width > 0;
    layer.out_channels = channels_ = channels;
    layer.out_height = height_ = height;
    layer.out_width = width_ = width;
  }

  // lr_mult 1 for weights and 2 for biases, as in Caffe's LeNet; both decay.
  void add_parameters(Layer& layer, const std::string& name, std::vector<std::int64_t> weight) {
    layer.weight = static_cast<std::int64_t>(model_.parameters.size());
    layer.bias = layer.weight + 1;
    const std::int64_t outputs = weight.front();
    model_.parameters.push_back({name + ".weight", std::move(weight), 1, 1});
    model_.parameters.push_back({name + ".bias", {outputs}, 2, 1});
  }

  Model model_;
  std::int64_t channels_;
  std::int64_t height_;
  std::int64_t width_;
  bool fits_ = true;
};

void softmax(Builder& builder, std::int64_t classes) {
  builder.fully_connected("ip", classes);
}

void lenet(Builder& builder, std::int64_t classes) {
  builder.convolution("conv1", 20, 5);
  builder.max_pool(2);
  builder.convolution("conv2", 50, 5);
  builder.max_pool(2);
  builder.fully_connected("ip1", 500);
  builder.relu();
  builder.fully_connected("ip2", classes);
}

struct Named {
  const char* name;
  void (*build)(Builder& builder, std::int64_t classes);
};

constexpr Named kModels[] = {{"softmax", softmax}, {"lenet", lenet}};

}  // namespace

std::size_t Model::parameter_count() const {
  std::size_t count = 0;
  for (const ParameterSpec& spec : parameters) {
    std::size_t size = 1;
    for (const std::int64_t extent : spec.shape) size *= static_cast<std::size_t>(extent);
    count += size;
  }
  return count;
}

std::vector<std::size_t> Model::backward_order() const {
  std::vector<std::size_t> order;
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    if (layer->bias >= 0) order.push_back(static_cast<std::size_t>(layer->bias));
    if (layer->weight >= 0) order.push_back(static_cast<std::size_t>(layer->weight));
  }
  return order;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Named& model : kModels) names.emplace_back(model.name);
  return names;
}

base::Result<Model> find_model(std::string_view name, const records::Shape& shape,
                               std::int64_t classes) {
  for (const Named& model : kModels) {
    if (name != model.name) continue;
    if (shape.channels < 1 || shape.height < 1 || shape.width < 1 || classes < 1) {
      return base::fail(base::ErrorKind::invalid_argument,
                        fmt::format("a model needs samples and classes: {} for {}x{}x{} samples of "
                                    "{} classes",
                                    name, shape.channels, shape.height, shape.width, classes));
    }
    Builder builder(model.name, shape, classes);
    model.build(builder, classes);
    if (!builder.fits()) {
      return base::fail(base::ErrorKind::invalid_argument,
                        fmt::format("the samples are too small for the model's layers: {} on "
                                    "{}x{}x{} (channels x height x width)",
                                    name, shape.channels, shape.height, shape.width));
    }
    return builder.take();
  }
  return base::fail(
      base::ErrorKind::invalid_argument,
      fmt::format("no such model: {} ({})", name, base::suggestion(name, model_names())));
}

void initialize(const ParameterArena& arena, const Model& model, std::uint64_t seed) {
  if (arena.backing() == Backing::phantom) return;
  for (const Layer& layer : model.layers) {
    if (layer.weight < 0) continue;
    const ParameterView& weight = arena.views().at(static_cast<std::size_t>(layer.weight));
    const ParameterView& bias = arena.views().at(static_cast<std::size_t>(layer.bias));
    const std::int64_t fan_in = static_cast<std::int64_t>(weight.size) / weight.shape.front();
    const float bound = std::sqrt(3.0F / static_cast<float>(fan_in));
    base::Random random = base::Random::of({seed, static_cast<std::uint64_t>(layer.weight)});
    for (float& value : arena.parameters().subspan(weight.offset, weight.size)) {
      value = (2.0F * random.unit() - 1.0F) * bound;
    }
    for (float& value : arena.parameters().subspan(bias.offset, bias.size)) value = 0;
  }
}

}  // namespace dlobd::compute
