// The border between this program and the libtorch plug-in (libdlobd_torch.so): plain data and pure
// virtual functions, no coroutine, no container and no string of the standard library, so that the
// plug-in may be built against a libtorch of either C++ ABI and shares no state with the program.
// Functions that can fail return false and leave a text for error(), valid until the next call.
// Threads: one thread at a time for each TorchModel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compute/layer.h"

namespace dlobd::compute {

inline constexpr std::uint32_t kTorchPluginVersion = 1;

struct TorchParameter {
  float* parameter = nullptr;  // host memory of the arena
  float* gradient = nullptr;
  std::int64_t shape[4] = {};
  std::int64_t dimensions = 0;
  std::int64_t size = 0;  // elements
};

struct TorchModelSpec {
  const Layer* layers = nullptr;
  std::size_t layer_count = 0;
  const TorchParameter* parameters = nullptr;
  std::size_t parameter_count = 0;
  std::int64_t channels = 0, height = 0, width = 0, classes = 0;
  float input_scale = 1;
  bool gpu = false;
  bool accelerated = false;  // by oneDNN on a CPU, by cuDNN on a GPU
  int threads = 1;
};

struct TorchBatch {
  const std::uint8_t* pixels = nullptr;
  const std::int64_t* labels = nullptr;
  std::int64_t size = 0;
};

// Hears that a gradient lies complete in the arena, in backward order, on the computing thread.
class TorchGradientSink {
 public:
  virtual void gradient_ready(std::size_t parameter) = 0;

 protected:
  ~TorchGradientSink() = default;
};

class TorchModel {
 public:
  virtual ~TorchModel() = default;
  // Mean loss over the batch; overwrites every gradient.
  virtual bool forward_backward(const TorchBatch& batch, TorchGradientSink& sink, double& loss) = 0;
  virtual bool evaluate(const TorchBatch& batch, double& loss_sum, std::int64_t& correct) = 0;
  // The outputs of the last layer, size * classes, row by row: for tests.
  virtual bool outputs(const TorchBatch& batch, float* values) = 0;
  [[nodiscard]] virtual const char* error() const = 0;
};

struct TorchVersions {
  char libtorch[32] = {};
  char onednn[32] = {};  // "" where the build has none
  char built_in_mkl[64] =
      {};              // its version where libtorch carries MKL in itself, so that --blas is moot
  char cuda[32] = {};  // "" where the build has none
  char cudnn[32] = {};
  std::int32_t gpus = 0;
  char gpu_name[128] = {};  // of the first
};

class TorchPluginInterface {
 public:
  [[nodiscard]] virtual std::uint32_t version() const = 0;  // kTorchPluginVersion when it was built
  virtual void versions(TorchVersions& versions) const = 0;
  // Null on failure; the text is then in `error`.
  virtual TorchModel* make_model(const TorchModelSpec& spec, char* error,
                                 std::size_t error_size) = 0;

 protected:
  ~TorchPluginInterface() = default;
};

// The plug-in's only symbol: extern "C" TorchPluginInterface* dlobd_torch_plugin().
using TorchPluginEntry = TorchPluginInterface* (*)();
inline constexpr const char* kTorchPluginEntry = "dlobd_torch_plugin";
inline constexpr const char* kTorchPluginFile = "libdlobd_torch.so";

}  // namespace dlobd::compute
