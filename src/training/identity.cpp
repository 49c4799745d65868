#include "training/identity.h"

#include <fmt/format.h>

#include <utility>

namespace dlobd::training {

std::string version() {
  return DLOBD_VERSION;
}

cluster::JobIdentity job_identity(const Config& config, std::string token) {
  cluster::JobIdentity identity;
  identity.token = std::move(token);
  identity.version = version();
  identity.configuration_hash = hash(config);
  identity.world_size = config.ranks;
  return identity;
}

Checkpoint identity_of(const Config& config) {
  Checkpoint identity;
  identity.stack = stacks::name(config.design.stack);
  for (const auto& defect : config.design.defects) {
    if (!identity.defects.empty()) identity.defects += ",";
    identity.defects += fmt::format("{}={}", defect.name, stacks::name(defect.behaviour));
  }
  identity.model = config.model;
  identity.ranks = static_cast<std::uint64_t>(config.ranks);
  identity.local_batch_size = config.batch.local;
  identity.seed = config.seed;
  return identity;
}

std::string checkpoint_path(const std::string& folder, const Config& config, std::uint64_t step) {
  return fmt::format("{}/{}-{}-step-{:06}.ckpt", folder, stacks::name(config.design.stack),
                     config.model, step);
}

}  // namespace dlobd::training
