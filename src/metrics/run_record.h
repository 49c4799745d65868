// RunRecord v1: what a run leaves on disk, and its form as JSON. docs/run-record.md explains every
// key, docs/run-record.schema.json checks them. Readers ignore unknown keys and files, so that
// optional ones may be added within version 1; another major version is refused. Plain values; any
// thread. Folders are written and read by run_folder.h, filled by run_recorder.h.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "metrics/environment.h"
#include "metrics/rows.h"

namespace dlobd::metrics {

inline constexpr std::string_view kRunRecordSchema = "dlobd.run_record/1.0";

enum class RunSource { measured, simulated, external };
enum class RunStatus { finished, failed, interrupted, target_missed };
std::string_view name(RunSource source);
std::string_view name(RunStatus status);

// What was asked for. Nothing (null in JSON) where a value does not apply.
struct RunConfig {
  std::string stack;
  std::string exchange;
  std::optional<std::string> behaviour;        // faithful, fixed; allreduce has none
  std::map<std::string, std::string> defects;  // name -> faithful | fixed
  std::string network;                         // tcp, rdma, simulated
  std::optional<std::string> provider;
  std::string processor;                // cpu, cpu+onednn, gpu, gpu+cudnn, profile:FILE
  std::optional<std::int64_t> threads;  // of the computation, per rank
  std::string model;
  std::string data;
  std::string feed;  // "idx, drop_last"
  std::int64_t ranks = 1;
  std::int64_t local_batch_size = 0;
  std::int64_t global_batch_size = 0;
  std::optional<double> epochs;  // nothing where steps end the run
  double learning_rate = 0;
  std::string lr_policy;
  double momentum = 0;
  double weight_decay = 0;
  std::string wire_element = "float32";
  std::uint64_t seed = 0;
  // Further keys, as they are: {"steps": 100, "peer_timeout_seconds": 10, "blas": "openblas"}.
  nlohmann::json more = nlohmann::json::object();
};

// Mean over the steps after the warm-up of all ranks, and its share of their wall time.
struct PhaseSummary {
  double mean_ns = 0;
  double share = 0;
};

// Nothing where a run did not get far enough to know. docs/metrics.md has the formulas.
struct RunSummary {
  std::optional<double> samples_per_second;
  std::uint64_t steps = 0;
  std::uint64_t samples_seen = 0;
  std::optional<double> train_seconds;
  std::optional<double> time_to_first_step_seconds;
  std::optional<double> first_step_seconds;
  std::optional<double> test_accuracy;
  std::optional<double> loss;
  std::map<std::string, PhaseSummary>
      phases;                      // "feed", ..., "unattributed", and "communication" apart
  std::uint64_t warmup_steps = 0;  // left out of the rate and the phases, per rank
  double evaluation_seconds = 0;   // left out of the rate; of the slowest rank
  double snapshot_seconds = 0;
};

struct RunRecord {
  std::string schema{kRunRecordSchema};
  RunSource source = RunSource::measured;
  RunStatus status = RunStatus::finished;
  std::optional<std::string> error;  // why it failed
  std::string started_at;            // UTC, ISO 8601, "2026-03-01T12:00:00.123Z"
  RunConfig config;
  Environment environment;               // of the lowest rank that reported
  std::vector<std::string> hosts;        // of ranks 0, 1, ..., each once
  std::vector<Environment> other_hosts;  // one of each host other than environment.host
  RunSummary summary;
  std::vector<RankSummary> ranks;
  bool wait_split =
      false;  // false: clocks are not aligned, wait_ns is 0 and waiting is in exchange_exposed_ns
  std::vector<std::string> warnings;

  std::vector<StepRow> steps;              // steps.csv
  std::vector<EvaluationRow> evaluations;  // evaluations.csv
};

// run.json. NaN and infinity have no form in JSON: they become null.
nlohmann::json to_json(const RunRecord& record);
// All but the rows. corrupt_data names the key that is missing or of another type; unavailable:
// another major version.
base::Result<RunRecord> run_record_from_json(const nlohmann::json& json);

}  // namespace dlobd::metrics
