// Makes the replica that a configuration asks for, loading libtorch where it is needed.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/loop.h"
#include "base/result.h"
#include "compute/model.h"
#include "compute/plugin.h"
#include "compute/profile.h"
#include "compute/replica.h"
#include "compute/worker.h"
#include "metrics/environment.h"
#include "training/config.h"

namespace dlobd::training {

// What a configuration's processor needs, loaded once for all replicas of this process.
class Replicas {
 public:
  // Before other threads start where libtorch is loaded. `preset_kernel`: the user's
  // OPENBLAS_CORETYPE, or "". Errors: those of load_torch() and read_profile().
  static base::Result<Replicas> load(const Config& config, const compute::Model& model,
                                     const std::string& preset_kernel);

  base::Result<std::unique_ptr<compute::Replica>> make(
      base::Loop& loop, std::unique_ptr<compute::Worker> worker) const;

  // What a server of a design holds: the model's parameters, as every replica starts with them.
  [[nodiscard]] std::unique_ptr<compute::ParameterArena> make_parameters(std::uint64_t seed) const;

  // Fills what the libraries in use say of themselves.
  void describe(metrics::Environment& environment) const;

 private:
  explicit Replicas(compute::Model model) : model_(std::move(model)) {}

  compute::Model model_;
  compute::Processor processor_;
  std::optional<compute::Profile> profile_;
  std::optional<compute::TorchPlugin> plugin_;
};

// For people, what a rank computes by, as its environment has it: "libtorch 1.13.1, oneDNN 2.7,
// openblas 0.3.21 with its Zen kernels (the CPU has AVX2 and FMA (AMD EPYC)); 2 threads a rank".
std::string computation_text(const Config& config, const metrics::Environment& environment);

}  // namespace dlobd::training
