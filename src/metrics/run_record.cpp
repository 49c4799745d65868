#include "metrics/run_record.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

#include "metrics/json_fields.h"

namespace dlobd::metrics {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 3> kSources = {"measured", "simulated", "external"};
constexpr std::array<std::string_view, 4> kStatuses = {"finished", "failed", "interrupted",
                                                       "target_missed"};

json number(double value) {
  return std::isfinite(value) ? json(value) : json();
}
json number(const std::optional<double>& value) {
  return value ? number(*value) : json();
}

json to_json(const RunConfig& config) {
  json out = config.more.is_object() ? config.more : json::object();
  out["stack"] = config.stack;
  out["exchange"] = config.exchange;
  out["behaviour"] = nullable(config.behaviour);
  out["defects"] = config.defects;
  out["network"] = config.network;
  out["provider"] = nullable(config.provider);
  out["processor"] = config.processor;
  out["threads"] = nullable(config.threads);
  out["model"] = config.model;
  out["data"] = config.data;
  out["feed"] = config.feed;
  out["ranks"] = config.ranks;
  out["local_batch_size"] = config.local_batch_size;
  out["global_batch_size"] = config.global_batch_size;
  out["epochs"] = number(config.epochs);
  out["learning_rate"] = number(config.learning_rate);
  out["lr_policy"] = config.lr_policy;
  out["momentum"] = number(config.momentum);
  out["weight_decay"] = number(config.weight_decay);
  out["wire_element"] = config.wire_element;
  out["seed"] = config.seed;
  return out;
}

RunConfig config_from_json(FieldReader in) {
  RunConfig config;
  config.more = in.object();
  const auto take = [&](const char* key, auto& value) {
    in.required(key, value);
    config.more.erase(key);
  };
  take("stack", config.stack);
  take("exchange", config.exchange);
  take("behaviour", config.behaviour);
  take("defects", config.defects);
  take("network", config.network);
  take("provider", config.provider);
  take("processor", config.processor);
  take("threads", config.threads);
  take("model", config.model);
  take("data", config.data);
  take("feed", config.feed);
  take("ranks", config.ranks);
  take("local_batch_size", config.local_batch_size);
  take("global_batch_size", config.global_batch_size);
  take("epochs", config.epochs);
  take("learning_rate", config.learning_rate);
  take("lr_policy", config.lr_policy);
  take("momentum", config.momentum);
  take("weight_decay", config.weight_decay);
  take("wire_element", config.wire_element);
  take("seed", config.seed);
  return config;
}

json to_json(const RunSummary& summary) {
  json phases = json::object();
  for (const auto& [phase, value] : summary.phases) {
    phases[phase] = {{"mean_ns", number(value.mean_ns)}, {"share", number(value.share)}};
  }
  return {{"samples_per_second", number(summary.samples_per_second)},
          {"steps", summary.steps},
          {"samples_seen", summary.samples_seen},
          {"train_seconds", number(summary.train_seconds)},
          {"time_to_first_step_seconds", number(summary.time_to_first_step_seconds)},
          {"first_step_seconds", number(summary.first_step_seconds)},
          {"test_accuracy", number(summary.test_accuracy)},
          {"loss", number(summary.loss)},
          {"phases", std::move(phases)},
          {"warmup_steps", summary.warmup_steps},
          {"evaluation_seconds", number(summary.evaluation_seconds)},
          {"snapshot_seconds", number(summary.snapshot_seconds)}};
}

RunSummary summary_from_json(FieldReader in) {
  RunSummary summary;
  in.required("samples_per_second", summary.samples_per_second);
  in.required("steps", summary.steps);
  in.required("samples_seen", summary.samples_seen);
  in.required("train_seconds", summary.train_seconds);
  in.required("time_to_first_step_seconds", summary.time_to_first_step_seconds);
  in.required("test_accuracy", summary.test_accuracy);
  in.required("loss", summary.loss);
  in.optional("first_step_seconds", summary.first_step_seconds);
  in.optional("warmup_steps", summary.warmup_steps);
  in.optional("evaluation_seconds", summary.evaluation_seconds);
  in.optional("snapshot_seconds", summary.snapshot_seconds);
  const FieldReader phases = in.child("phases");
  for (const auto& item : phases.object().items()) {
    const FieldReader phase = phases.child(item.key());
    PhaseSummary value;
    phase.required("mean_ns", value.mean_ns);
    phase.required("share", value.share);
    summary.phases[item.key()] = value;
  }
  return summary;
}

// The counts of a rank, by key; `visit` sees (key, value).
template <class Rank, class Visit>
void for_each_count(Rank& rank, Visit visit) {
  visit("messages_sent", rank.data_sent.messages);
  visit("bytes_sent", rank.data_sent.bytes);
  visit("messages_received", rank.data_received.messages);
  visit("bytes_received", rank.data_received.bytes);
  visit("control_messages_sent", rank.control_sent.messages);
  visit("control_bytes_sent", rank.control_sent.bytes);
  visit("peak_rss_bytes", rank.peak_rss_bytes);
}

// The same for those that version 1.0 leaves optional.
template <class Rank, class Visit>
void for_each_optional_count(Rank& rank, Visit visit) {
  visit("control_messages_received", rank.control_received.messages);
  visit("control_bytes_received", rank.control_received.bytes);
  visit("apart_messages_sent", rank.apart_sent.messages);
  visit("apart_bytes_sent", rank.apart_sent.bytes);
  visit("apart_messages_received", rank.apart_received.messages);
  visit("apart_bytes_received", rank.apart_received.bytes);
  visit("heartbeats_sent", rank.heartbeats_sent);
  visit("gathers_sent", rank.gathers_sent);
  visit("gather_bytes_sent", rank.gather_bytes_sent);
  visit("cpu_ns", rank.cpu_ns);
  visit("samples_padded", rank.samples_padded);
  visit("samples_dropped", rank.samples_dropped);
}

json to_json(const RankSummary& rank) {
  json out = {{"rank", rank.rank},
              {"role", rank.role},
              {"host", rank.host},
              {"pid", rank.pid},
              {"complete", rank.complete},
              {"clock_error_ns", rank.clock_error_ns < 0 ? json() : json(rank.clock_error_ns)},
              {"samples_seen", rank.samples_seen}};
  const auto put = [&](const char* key, std::uint64_t value) {
    out[key] = rank.complete ? json(value) : json();
  };
  for_each_count(rank, put);
  for_each_optional_count(rank, put);
  out["credits_sent"] = rank.complete ? nullable(rank.credits_sent) : json();
  out["port_bytes_sent"] = rank.complete && rank.port ? json(rank.port->sent) : json();
  out["port_bytes_received"] = rank.complete && rank.port ? json(rank.port->received) : json();
  return out;
}

RankSummary rank_from_json(FieldReader in) {
  RankSummary rank;
  in.required("rank", rank.rank);
  in.required("role", rank.role);
  in.required("host", rank.host);
  std::optional<std::int64_t> clock_error_ns;
  in.required("clock_error_ns", clock_error_ns);
  rank.clock_error_ns = clock_error_ns.value_or(-1);
  for_each_count(rank, [&](const char* key, std::uint64_t& value) {
    std::optional<std::uint64_t> count;
    in.required(key, count);
    value = count.value_or(0);
  });
  for_each_optional_count(rank, [&](const char* key, std::uint64_t& value) {
    std::optional<std::uint64_t> count;
    in.optional(key, count);
    value = count.value_or(0);
  });
  in.optional("credits_sent", rank.credits_sent);
  std::optional<std::uint64_t> port_sent;
  std::optional<std::uint64_t> port_received;
  in.optional("port_bytes_sent", port_sent);
  in.optional("port_bytes_received", port_received);
  if (port_sent && port_received) rank.port = PortBytes{*port_sent, *port_received};
  in.optional("pid", rank.pid);
  in.optional("complete", rank.complete);
  in.optional("samples_seen", rank.samples_seen);
  return rank;
}

template <class Enum, std::size_t n>
void word(const FieldReader& in, const char* key, const std::array<std::string_view, n>& words,
          Enum& value) {
  std::string text;
  in.required(key, text);
  for (std::size_t i = 0; i < n; ++i) {
    if (words[i] == text) {
      value = static_cast<Enum>(i);
      return;
    }
  }
  in.wrong(fmt::format("{} is \"{}\"", key, text));
}

// "dlobd.run_record/1.7" -> the major version is ours; anything else that claims to be a record is
// not.
base::Result<void> check_schema(const std::string& schema) {
  const std::string_view stem = kRunRecordSchema.substr(0, kRunRecordSchema.find('.', 6));
  const std::string_view family = stem.substr(0, stem.find('/') + 1);
  const std::string_view text = schema;
  if (text.starts_with(stem) && (text.size() == stem.size() || text[stem.size()] == '.')) return {};
  if (text.starts_with(family)) {
    return base::fail(base::ErrorKind::unavailable,
                      fmt::format("a record of another version: \"{}\", this program reads {}.x; "
                                  "use the dlobd that wrote it",
                                  schema, stem));
  }
  return base::fail(base::ErrorKind::corrupt_data,
                    fmt::format("not a run record: its schema is \"{}\"", schema));
}

}  // namespace

std::string_view name(RunSource source) {
  return kSources[static_cast<std::size_t>(source)];
}
std::string_view name(RunStatus status) {
  return kStatuses[static_cast<std::size_t>(status)];
}

json to_json(const RunRecord& record) {
  json environment = to_json(record.environment);
  environment["hosts"] = record.hosts;
  json others = json::array();
  for (const Environment& other : record.other_hosts) others.push_back(to_json(other));
  json ranks = json::array();
  for (const RankSummary& rank : record.ranks) ranks.push_back(to_json(rank));
  environment["other_hosts"] = std::move(others);
  return {{"schema", record.schema},
          {"source", name(record.source)},
          {"status", name(record.status)},
          {"error", nullable(record.error)},
          {"started_at", record.started_at},
          {"config", to_json(record.config)},
          {"environment", std::move(environment)},
          {"summary", to_json(record.summary)},
          {"ranks", std::move(ranks)},
          {"wait_split", record.wait_split},
          {"warnings", record.warnings}};
}

base::Result<RunRecord> run_record_from_json(const json& in) {
  FieldReader::Problem problem;
  const FieldReader top(in, "", problem);
  RunRecord record;
  top.required("schema", record.schema);
  if (problem.empty()) {
    DLOBD_TRY_VOID(schema, check_schema(record.schema));
  }
  word(top, "source", kSources, record.source);
  word(top, "status", kStatuses, record.status);
  top.optional("error", record.error);
  top.required("started_at", record.started_at);
  record.config = config_from_json(top.child("config"));
  const FieldReader environment = top.child("environment");
  environment.required("hosts", record.hosts);
  record.summary = summary_from_json(top.child("summary"));
  for (const FieldReader& rank : top.children("ranks"))
    record.ranks.push_back(rank_from_json(rank));
  top.required("wait_split", record.wait_split);
  top.required("warnings", record.warnings);
  if (!problem.empty()) return base::fail(base::ErrorKind::corrupt_data, problem.text());

  DLOBD_TRY(own, environment_from_json(environment.object()));
  record.environment = std::move(own);
  const auto others = environment.object().find("other_hosts");
  if (others != environment.object().end() && others->is_array()) {
    for (const json& other : *others) {
      DLOBD_TRY(one, environment_from_json(other));
      record.other_hosts.push_back(std::move(one));
    }
  }
  return record;
}

}  // namespace dlobd::metrics
