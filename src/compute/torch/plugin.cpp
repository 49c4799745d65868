// The plug-in's entry point, and what it says of the libtorch that it was built against.
#include <ATen/Context.h>
#include <ATen/Version.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>
#include <torch/version.h>

#include <cctype>
#include <cstdio>
#include <exception>
#include <string>

#include "compute/torch/model.h"

namespace dlobd::compute {
namespace {

template <std::size_t size>
void put(char (&target)[size], const std::string& text) {
  std::snprintf(target, size, "%s", text.c_str());
}

// "2.6.3" of "Intel(R) MKL-DNN v2.6.3 (Git Hash N/A)"; the whole text where it reads otherwise.
std::string number_in(const std::string& text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (std::isdigit(static_cast<unsigned char>(text[i])) == 0) continue;
    const std::size_t end = text.find_first_not_of("0123456789.", i);
    const std::string number = text.substr(i, end - i);
    if (number.find('.') != std::string::npos) return number;
    i += number.size();
  }
  return text;
}

// By the driver's own interface, so that no CUDA header is needed.
std::string first_gpu_name() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return {};
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto get_name =
      reinterpret_cast<int (*)(char*, int, int)>(dlsym(driver, "cuDeviceGetName"));
  char text[128] = {};
  if (init == nullptr || get_name == nullptr || init(0) != 0 ||
      get_name(text, sizeof(text), 0) != 0) {
    return {};
  }
  return text;
}

class Plugin final : public TorchPluginInterface {
 public:
  [[nodiscard]] std::uint32_t version() const override { return kTorchPluginVersion; }

  void versions(TorchVersions& versions) const override {
    put(versions.libtorch, TORCH_VERSION);
    try {
      if (at::hasMKLDNN()) put(versions.onednn, number_in(at::get_mkldnn_version()));
      if (at::hasMKL()) put(versions.built_in_mkl, number_in(at::get_mkl_version()));
      if (DLOBD_LIBTORCH_CUDA != 0) cuda(versions);
    } catch (const std::exception&) {
      // A libtorch that cannot say has it not.
    }
  }

  TorchModel* make_model(const TorchModelSpec& spec, char* error, std::size_t error_size) override {
    try {
      return make_aten_model(spec).release();
    } catch (const std::exception& thrown) {
      const std::string text = thrown.what();
      std::snprintf(error, error_size, "%s", text.substr(0, text.find('\n')).c_str());
      return nullptr;
    }
  }

 private:
  static void cuda(TorchVersions& versions) {
    const auto& hooks = at::detail::getCUDAHooks();
    const long runtime = hooks.versionCUDART();
    put(versions.cuda, std::to_string(runtime / 1000) + "." + std::to_string(runtime % 1000 / 10));
    versions.gpus = static_cast<std::int32_t>(hooks.getNumGPUs());
    if (versions.gpus > 0) put(versions.gpu_name, first_gpu_name());
    // 8902 is 8.9.2, 90100 is 9.1.0.
    const long cudnn = hooks.versionCuDNN();
    const long major = cudnn >= 90000 ? cudnn / 10000 : cudnn / 1000;
    const long minor = cudnn >= 90000 ? cudnn % 10000 / 100 : cudnn % 1000 / 100;
    put(versions.cudnn,
        std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(cudnn % 100));
  }
};

}  // namespace
}  // namespace dlobd::compute

extern "C" __attribute__((visibility("default"))) dlobd::compute::TorchPluginInterface*
dlobd_torch_plugin() {
  static dlobd::compute::Plugin plugin;
  return &plugin;
}
