#include "training/replicas.h"

#include <fmt/format.h>

#include <utility>

#include "compute/reference.h"
#include "compute/torch_replica.h"

namespace dlobd::training {

using compute::Processor;

base::Result<Replicas> Replicas::load(const Config& config, const compute::Model& model,
                                      const std::string& preset_kernel) {
  Replicas replicas(model);
  replicas.processor_ = config.processor;
  if (config.processor.kind == Processor::Kind::profile) {
    DLOBD_TRY(profile, compute::read_profile(config.processor.profile_path));
    replicas.profile_ = std::move(profile);
  } else if (config.processor.needs_libtorch()) {
    compute::PluginOptions options;
    options.folder = compute::program_folder();
    options.processor = config.processor;
    options.blas.blas = config.blas;
    options.blas.preset_kernel = preset_kernel;
    options.blas.mkl_folder = config.mkl_folder;
    options.blas.threads = config.threads;
    DLOBD_TRY(plugin, compute::load_torch(options));
    replicas.plugin_ = std::move(plugin);
  }
  return replicas;
}

base::Result<std::unique_ptr<compute::Replica>> Replicas::make(
    base::Loop& loop, std::unique_ptr<compute::Worker> worker) const {
  if (profile_) return compute::make_profile(loop, *profile_, model_);
  if (plugin_) return compute::make_torch_replica(loop, std::move(worker), *plugin_, model_);
  return compute::make_reference(loop, std::move(worker), model_);
}

std::unique_ptr<compute::ParameterArena> Replicas::make_parameters(std::uint64_t seed) const {
  auto arena = std::make_unique<compute::ParameterArena>(model_.parameters);
  compute::initialize(*arena, model_, seed);
  return arena;
}

void Replicas::describe(metrics::Environment& environment) const {
  if (!plugin_) {
    for (const char* field : {"libtorch", "onednn", "blas", "blas_kernel", "blas_expected_kernel",
                              "blas_chosen_because", "cuda", "cudnn"}) {
      environment.unknown[field] = "not used by processor " + processor_.text();
    }
    return;
  }
  const auto& report = plugin_->report;
  const auto fill = [&](std::optional<std::string>& field, const char* name,
                        const std::string& value, const char* otherwise) {
    if (value.empty()) {
      environment.unknown[name] = otherwise;
    } else {
      field = value;
    }
  };
  fill(environment.libtorch, "libtorch", report.libtorch, "libtorch does not say");
  fill(environment.onednn, "onednn", report.onednn, "this libtorch has none");
  fill(environment.blas, "blas", report.blas.library, "libtorch brings its own");
  fill(environment.blas_kernel, "blas_kernel", report.blas.kernel, "the library does not say");
  fill(environment.blas_expected_kernel, "blas_expected_kernel", report.blas.expected_kernel,
       "the library chooses by itself");
  fill(environment.blas_chosen_because, "blas_chosen_because", report.blas.chosen_because,
       "nothing was chosen");
  fill(environment.cuda, "cuda", report.cuda, "this libtorch has none");
  fill(environment.cudnn, "cudnn", report.cudnn, "this libtorch has none");
}

std::string computation_text(const Config& config, const metrics::Environment& environment) {
  if (!environment.libtorch) return config.processor.text();
  std::string text = "libtorch " + *environment.libtorch;
  if (config.processor.kind == Processor::Kind::cpu_onednn && environment.onednn) {
    text += ", oneDNN " + *environment.onednn;
  }
  if (config.processor.is_gpu() && environment.gpu) text += ", " + *environment.gpu;
  if (environment.blas) text += ", " + *environment.blas;
  if (environment.blas_kernel)
    text += fmt::format(" with its {} kernels", *environment.blas_kernel);
  if (environment.blas_chosen_because)
    text += fmt::format(" ({})", *environment.blas_chosen_because);
  return fmt::format("{}; {} thread{} a rank", text, config.threads,
                     config.threads == 1 ? "" : "s");
}

}  // namespace dlobd::training
