#include "training/config.h"

#include <nlohmann/json.hpp>

namespace dlobd::training {

std::string_view name(NetworkKind network) {
  return network == NetworkKind::tcp ? "tcp" : "simulated";
}

metrics::RunConfig run_config(const Config& config) {
  metrics::RunConfig run;
  run.stack = config.design.stack;
  run.exchange = config.design.exchange;
  if (config.design.behaviour) run.behaviour = stacks::name(*config.design.behaviour);
  for (const auto& defect : config.design.defects) {
    run.defects[defect.name] = stacks::name(defect.behaviour);
  }
  run.network = name(config.network);
  run.processor = config.processor.text();
  if (config.processor.needs_libtorch()) run.threads = config.threads;
  run.model = config.model;
  run.data = config.data;
  run.feed = "idx, " + std::string(batches::name(config.uneven));
  run.ranks = config.ranks;
  run.local_batch_size = static_cast<std::int64_t>(config.batch.local);
  run.global_batch_size = static_cast<std::int64_t>(config.batch.global);
  if (config.epochs) run.epochs = static_cast<double>(*config.epochs);
  run.learning_rate = config.optimizer.learning_rate.base;
  run.lr_policy = config.optimizer.learning_rate.text();
  run.momentum = config.optimizer.momentum;
  run.weight_decay = config.optimizer.weight_decay;
  run.seed = config.seed;

  auto& more = run.more;
  if (config.design.servers > 0) more[config.design.server_role] = config.design.servers;
  more["batch_rule"] = batches::name(config.design.batch_rule);
  more["steps"] = config.steps ? nlohmann::json(*config.steps) : nlohmann::json();
  more["until_accuracy"] =
      config.until_accuracy ? nlohmann::json(*config.until_accuracy) : nlohmann::json();
  more["evaluate_every"] = config.evaluate_every;
  more["blas"] = config.blas ? nlohmann::json(compute::text(*config.blas)) : nlohmann::json();
  more["peer_timeout_seconds"] = std::chrono::duration<double>(config.peer_timeout).count();
  more["resume"] = config.resume.empty() ? nlohmann::json() : nlohmann::json(config.resume);
  if (config.network == NetworkKind::simulated) {
    const auto& link = config.link;
    more["link"] = {{"text", config.link_text},
                    {"latency_ns", link.latency.count()},
                    {"bandwidth_bytes_per_second", link.bandwidth_bytes_per_second},
                    {"send_per_message_ns", link.send_per_message.count()},
                    {"receive_per_message_ns", link.receive_per_message.count()},
                    {"send_per_piece_ns", link.send_per_piece.count()},
                    {"receive_per_piece_ns", link.receive_per_piece.count()},
                    {"jitter_ns", link.jitter.count()}};
  }
  return run;
}

}  // namespace dlobd::training
