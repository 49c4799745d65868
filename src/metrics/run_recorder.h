// Collects the reports of all ranks of a run and makes its RunRecord. A report that cannot be read,
// a row whose phases do not add up, a rank that fell silent: each becomes a warning of the record,
// for a record must survive what it describes. Belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "metrics/report.h"
#include "metrics/run_record.h"

namespace dlobd::metrics {

class RunRecorder {
 public:
  struct Start {
    // When the launcher (else this rank) was executed: process_started_unix_ns().
    std::int64_t unix_ns = 0;
    int world_size = 1;
    RunSource source = RunSource::measured;
  };
  RunRecorder(RunConfig config, Start start);

  // A blob that `rank` shipped. Never fails: see above.
  void add(int rank, std::span<const std::byte> blob);
  // The same, decoded already.
  void add(int rank, const Report& report);
  // Repeated ones are kept once.
  void warn(std::string message);

  // For progress lines and the like: what has come in so far.
  [[nodiscard]] const std::vector<StepRow>& steps() const { return steps_; }
  [[nodiscard]] const std::vector<EvaluationRow>& evaluations() const { return evaluations_; }

  // What ranks have failed of, as each said.
  [[nodiscard]] const std::map<int, base::Error>& failures() const { return failures_; }

  // nullptr: this rank has not said yet that it started.
  [[nodiscard]] const RankStarted* started(int rank) const;

  // The record as things stand, summary included.
  [[nodiscard]] RunRecord record(RunStatus status, std::optional<std::string> error = {}) const;
  // record() and write_run().
  [[nodiscard]] base::Result<std::filesystem::path> write(
      const std::filesystem::path& out, RunStatus status,
      std::optional<std::string> error = {}) const;

 private:
  RunConfig config_;
  Start start_;
  std::vector<StepRow> steps_;
  std::vector<ApartRow> aparts_;
  std::vector<EvaluationRow> evaluations_;
  std::map<int, RankStarted> started_;
  std::map<int, RankSummary> summaries_;
  std::map<int, base::Error> failures_;
  std::vector<std::string> warnings_;
  std::map<int, std::uint64_t> first_wrong_;  // rank -> first step whose phases do not add up
};

}  // namespace dlobd::metrics
