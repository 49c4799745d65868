#include "compute/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

namespace dlobd::compute {
namespace {

using base::ErrorKind;

base::Result<TorchPluginInterface*> open_plugin(const std::string& folder) {
  const std::string path = fmt::format("{}/{}", folder, kTorchPluginFile);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return base::fail(ErrorKind::unavailable,
                      fmt::format("built without libtorch: no {} (configure with -DDLOBD_TORCH=ON, "
                                  "or compute with profile:FILE)",
                                  path));
  }
  void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    return base::fail(ErrorKind::unavailable, fmt::format("cannot load libtorch: {}", dlerror()));
  }
  const auto entry = reinterpret_cast<TorchPluginEntry>(dlsym(library, kTorchPluginEntry));
  TorchPluginInterface* interface = entry != nullptr ? entry() : nullptr;
  if (interface == nullptr || interface->version() != kTorchPluginVersion) {
    return base::fail(
        ErrorKind::unavailable,
        fmt::format("the libtorch plug-in is of another version of this program: {}", path));
  }
  return interface;
}

// Whether the build and the host have what the processor needs.
base::Result<void> check_processor(const Processor& processor, const TorchReport& report) {
  const auto lacking = [&processor](const std::string& what) {
    return base::fail(ErrorKind::unavailable, fmt::format("the processor is not to be had: {}: {}",
                                                          processor.text(), what));
  };
  if (processor.kind == Processor::Kind::cpu_onednn && report.onednn.empty()) {
    return lacking("this libtorch was built without oneDNN (use cpu)");
  }
  if (!processor.is_gpu()) return {};
  if (report.cuda.empty()) {
    return lacking(
        "this libtorch was built without CUDA (configure with CMAKE_PREFIX_PATH set to one "
        "that was, or use cpu+onednn)");
  }
  if (report.gpus == 0) return lacking("CUDA finds no GPU here (use cpu+onednn)");
  if (processor.kind == Processor::Kind::gpu_cudnn && report.cudnn.empty()) {
    return lacking("cuDNN is not there (use gpu)");
  }
  return {};
}

}  // namespace

base::Result<TorchPlugin> load_torch(const PluginOptions& options) {
  if (!options.processor.needs_libtorch()) {
    return base::fail(
        ErrorKind::invalid_argument,
        fmt::format("this processor does not compute by libtorch: {}", options.processor.text()));
  }
  TorchPlugin plugin;
  plugin.processor = options.processor;
  plugin.threads = options.blas.threads;
  DLOBD_TRY(blas, load_blas(options.blas));
  DLOBD_TRY(interface, open_plugin(options.folder));
  plugin.interface = interface;
  TorchVersions versions;
  interface->versions(versions);
  plugin.report.libtorch = versions.libtorch;
  plugin.report.onednn = versions.onednn;
  plugin.report.cuda = versions.cuda;
  plugin.report.cudnn = versions.cudnn;
  plugin.report.gpu = versions.gpu_name;
  plugin.report.gpus = versions.gpus;
  plugin.report.blas = blas;
  if (versions.built_in_mkl[0] != '\0') {
    if (options.blas.blas && *options.blas.blas != Blas::mkl) {
      return base::fail(
          ErrorKind::unavailable,
          fmt::format("this libtorch carries its own BLAS, MKL: --blas {} has no effect "
                      "(leave it out, or build against Debian's libtorch)",
                      text(*options.blas.blas)));
    }
    plugin.report.blas = BlasReport();
    plugin.report.blas.library = fmt::format("mkl {}", versions.built_in_mkl);
    plugin.report.blas.chosen_because = "built into libtorch";
  }
  DLOBD_TRY_VOID(processor, check_processor(options.processor, plugin.report));
  return plugin;
}

std::string program_folder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

}  // namespace dlobd::compute
