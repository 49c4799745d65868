#include "training/config.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "transport/fabric/providers.h"

namespace dlobd::training {

std::string_view name(NetworkKind network) {
  switch (network) {
    case NetworkKind::tcp: return "tcp";
    case NetworkKind::rdma: return "rdma";
    case NetworkKind::simulated: return "simulated";
  }
  return "";
}

std::string network_label(const Config& config) {
  return config.network == NetworkKind::rdma ? transport::fabric::label(config.provider)
                                             : std::string(name(config.network));
}

std::optional<std::string> hypothetical(const Config& config) {
  return stacks::hypothetical(config.design, config.network == NetworkKind::rdma, config.processor);
}

namespace {

// "backup-workers" is backup_workers in a record.
std::string key_of(std::string option) {
  std::replace(option.begin(), option.end(), '-', '_');
  return option;
}

template <class Number>
std::optional<Number> whole(const std::string& value) {
  Number number{};
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size()) return std::nullopt;
  return number;
}

// A number where it is one.
nlohmann::json json_of(const std::string& value) {
  if (const auto integer = whole<std::int64_t>(value)) return *integer;
  if (const auto real = whole<double>(value)) return *real;
  return value;
}

}  // namespace

metrics::RunConfig run_config(const Config& config) {
  metrics::RunConfig run;
  run.stack = config.design.stack;
  run.exchange = config.design.exchange;
  if (config.design.behaviour) run.behaviour = stacks::name(*config.design.behaviour);
  for (const auto& defect : config.design.defects) {
    run.defects[defect.name] = stacks::name(defect.behaviour);
  }
  run.network = name(config.network);
  if (!config.provider.empty()) run.provider = config.provider;
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
  run.wire_element = compute::name(config.design.wire_element);
  run.seed = config.seed;

  auto& more = run.more;
  if (config.design.servers > 0) more[config.design.server_role] = config.design.servers;
  for (const auto& [option, value] : config.design.options) {
    const std::string key = key_of(option);
    if (!more.contains(key)) more[key] = json_of(value);
  }
  const auto lacking = hypothetical(config);
  more["hypothetical"] = lacking ? nlohmann::json(*lacking) : nlohmann::json();
  more["data_digest"] = config.data_digest;
  more["optimizer"] = exchange::name(config.optimizer.kind);
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
