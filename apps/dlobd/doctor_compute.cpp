#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "compute/blas.h"
#include "compute/plugin.h"
#include "doctor_checks.h"
#include "doctor_child.h"

namespace dlobd::app {
namespace {

using nlohmann::json;

// Loading libtorch from a cold disk takes its time; each BLAS kernel is tried in a child of its
// own.
constexpr base::Duration kLibraryPatience = std::chrono::seconds(60);

json blas_json(const compute::BlasReport& blas) {
  return {{"blas", blas.library},
          {"blas_path", blas.path},
          {"blas_kernel", blas.kernel},
          {"blas_expected_kernel", blas.expected_kernel},
          {"blas_chosen_because", blas.chosen_because},
          {"blas_product_checked", blas.product_checked}};
}

// In a child: what load_torch() reports, or {"error": ...}.
json torch_json(const std::string& preset_kernel) {
  compute::PluginOptions options;
  options.folder = compute::program_folder();
  options.processor.kind = compute::Processor::Kind::cpu;
  options.blas.preset_kernel = preset_kernel;
  const auto plugin = compute::load_torch(options);
  if (!plugin) return {{"error", plugin.error().message}};
  const compute::TorchReport& report = plugin->report;
  json out = blas_json(report.blas);
  out["libtorch"] = report.libtorch;
  out["onednn"] = report.onednn;
  out["cuda"] = report.cuda;
  out["cudnn"] = report.cudnn;
  out["gpu"] = report.gpu;
  out["gpus"] = report.gpus;
  return out;
}

// In a child: the BLAS that libtorch would get, where libtorch itself cannot be loaded.
json blas_alone_json(const std::string& preset_kernel) {
  compute::BlasOptions options;
  options.preset_kernel = preset_kernel;
  const auto blas = compute::load_blas(options);
  if (!blas) return {{"error", blas.error().message}};
  return blas_json(*blas);
}

json ask_child(json (*question)(const std::string&), const std::string& preset_kernel) {
  const auto answer = in_child(
      [&] { return question(preset_kernel).dump(-1, ' ', false, json::error_handler_t::replace); },
      kLibraryPatience);
  if (!answer) return {{"error", "loading it failed: " + answer.error().message}};
  json parsed = json::parse(*answer, nullptr, false);
  if (!parsed.is_object()) return {{"error", "loading it gave no answer"}};
  return parsed;
}

std::string word(const json& report, const char* key) {
  return report.value(key, std::string());
}

Capability library(const std::string& name, const std::string& version, const std::string& why_none,
                   const std::string& remedy) {
  Capability one;
  one.name = name;
  one.details["version"] = version.empty() ? json() : json(version);
  if (version.empty()) {
    one.finding = Finding::missing;
    one.found = why_none;
    one.remedy = remedy;
  } else {
    one.found = version;
  }
  return one;
}

Capability gpu_library(const std::string& name, const std::string& version,
                       const std::string& why_none) {
  Capability one = library(name, version, why_none,
                           "a CUDA build of libtorch by CMAKE_PREFIX_PATH (PyPI's torch is one)");
  if (!version.empty()) one.found += " in libtorch (unverified on a GPU)";
  return one;
}

// The BLAS in use, its kernel held against what the CPU can do.
Capability blas_in_use(const json& report, const std::string& remedy) {
  Capability one = library("blas", word(report, "blas"), word(report, "error"), remedy);
  if (one.finding == Finding::missing) return one;
  const std::string kernel = word(report, "blas_kernel");
  const std::string expected = word(report, "blas_expected_kernel");
  if (!kernel.empty()) one.found += fmt::format(", kernel {}", kernel);
  if (report.value("blas_product_checked", false)) one.found += ", product checked";
  if (const std::string why = word(report, "blas_chosen_because"); !why.empty()) {
    one.found += fmt::format(" ({})", why);
  }
  if (auto advice = compute::slow_kernel(kernel, expected)) {
    one.finding = Finding::note;
    one.remedy = std::move(*advice);
  }
  one.details = report;
  return one;
}

Capability blas_installed(compute::Blas blas, const std::string& remedy) {
  const auto path = compute::find_blas(blas, "");
  Capability one;
  one.name = "blas " + compute::text(blas);
  if (!path) {
    one.finding = Finding::missing;
    one.found = path.error().message;
    one.remedy = remedy;
    return one;
  }
  one.found = *path;
  one.details["path"] = *path;
  return one;
}

}  // namespace

std::vector<Capability> check_compute(const Variables& variables) {
  const std::string preset_kernel = variables("OPENBLAS_CORETYPE").value_or("");
  const json report = ask_child(torch_json, preset_kernel);
  const bool loaded = !report.contains("error");
  const std::string error = word(report, "error");
  const auto absent = [&](const char* text) {
    return loaded ? std::string(text) : std::string("libtorch is not there");
  };
  compute::BlasOptions preset;
  preset.preset_kernel = preset_kernel;
  const bool refused = !compute::check_preset_kernel(preset);
  const auto remedy = [refused](const char* usual) {
    return std::string(refused ? "unset OPENBLAS_CORETYPE" : usual);
  };
  std::vector<Capability> all;
  all.push_back(
      library("libtorch", word(report, "libtorch"), error,
              remedy("apt install libtorch-dev and build anew, or build with another libtorch by "
                     "CMAKE_PREFIX_PATH")));
  all.push_back(library("onednn", word(report, "onednn"),
                        absent("this libtorch is built without oneDNN"),
                        "another libtorch by CMAKE_PREFIX_PATH (PyPI's torch has oneDNN)"));
  const std::string cuda = word(report, "cuda");
  Capability gpu = gpu_library("cuda", cuda, absent("this libtorch is built without CUDA"));
  gpu.details["gpus"] = report.value("gpus", 0);
  all.push_back(std::move(gpu));
  all.push_back(
      gpu_library("cudnn", word(report, "cudnn"), absent("this libtorch is built without cuDNN")));
  all.push_back(blas_in_use(loaded ? report : ask_child(blas_alone_json, preset_kernel),
                            remedy("apt install libopenblas0-pthread")));
  all.push_back(blas_installed(compute::Blas::openblas, "apt install libopenblas0-pthread"));
  all.push_back(blas_installed(compute::Blas::reference, "apt install libblas3"));
  all.push_back(blas_installed(compute::Blas::mkl, "make mkl"));
  return all;
}

}  // namespace dlobd::app
