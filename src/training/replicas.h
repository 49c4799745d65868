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
  // For people: "libtorch 1.13.1, oneDNN 2.7, openblas 0.3.21 (SkylakeX: ...)"
  [[nodiscard]] std::string text() const;

 private:
  explicit Replicas(compute::Model model) : model_(std::move(model)) {}

  compute::Model model_;
  compute::Processor processor_;
  std::optional<compute::Profile> profile_;
  std::optional<compute::TorchPlugin> plugin_;
};

}  // namespace dlobd::training
