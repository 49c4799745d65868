#include "training/identity.h"

#include <fmt/format.h>
#include <zlib.h>

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace dlobd::training {

namespace {

std::string lines(metrics::RunConfig config, const std::set<std::string>& left_out) {
  metrics::RunRecord record;
  record.config = std::move(config);
  const auto json = metrics::to_json(record).at("config");
  std::string stack;  // goes first: much else follows from it
  std::string others;
  for (const auto& [key, value] : json.items()) {
    if (left_out.contains(key)) continue;
    // As JSON, a value is one line whatever it holds.
    (key == "stack" ? stack : others) += fmt::format(
        "{}={}\n", key, value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  return stack + others;
}

}  // namespace

std::string version() {
  return DLOBD_VERSION;
}

cluster::JobIdentity job_identity(const Config& config, std::string token) {
  cluster::JobIdentity identity;
  identity.token = std::move(token);
  identity.version = version();
  identity.configuration = settings(config);
  identity.world_size = config.layout().world_size();
  return identity;
}

std::string settings(const Config& config) {
  auto run = run_config(config);
  run.more["checkpoints"] = !config.checkpoint_folder.empty();
  return lines(std::move(run), {"threads"});
}

std::string identity_of(const Config& config) {
  // The last four follow from others.
  return lines(run_config(config),
               {"network", "provider", "link", "processor", "blas", "threads", "data", "epochs",
                "steps", "until_accuracy", "evaluate_every", "peer_timeout_seconds", "resume",
                "behaviour", "batch_rule", "global_batch_size", "hypothetical"});
}

std::string checkpoint_path(const std::string& folder, const Config& config, std::uint64_t step) {
  const std::string run = identity_of(config);
  const auto sum = crc32_z(0, reinterpret_cast<const Bytef*>(run.data()), run.size());
  return fmt::format("{}/{}-{}-{:08x}-step-{:06}.ckpt", folder, config.design.stack, config.model,
                     sum, step);
}

}  // namespace dlobd::training
