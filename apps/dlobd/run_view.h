// What a person sees of a run, and what is left of it: the live line while reports come in, then
// the record on disk and a few closing lines (or the record as JSON).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "metrics/progress.h"
#include "metrics/run_recorder.h"
#include "training/config.h"
#include "training/step_loop.h"

namespace dlobd::app {

class RunView {
 public:
  RunView(const training::Config& config, std::uint64_t train_records, metrics::RunSource source,
          bool json);

  // A report of `rank`. One thread.
  void add(int rank, std::span<const std::byte> blob);
  void warn(std::string message) { recorder_.warn(std::move(message)); }
  // The folder of the record has this name, unless it is taken. Otherwise: one of its own.
  void call(std::string run) { run_ = std::move(run); }

  // Writes the record, prints how it ended, and gives the exit status: 0, 1 or 130.
  int finish(const base::Result<training::End>& end);

 private:
  [[nodiscard]] base::Result<training::End> judged(base::Result<training::End> end) const;
  [[nodiscard]] std::optional<std::string> last_checkpoint() const;
  void meet(int rank, const metrics::Environment& environment);
  [[nodiscard]] std::vector<const metrics::StepRow*> latest_of_rank_0() const;
  [[nodiscard]] std::vector<const metrics::StepRow*> latest_of_all() const;
  void show_progress();
  [[nodiscard]] base::Result<std::filesystem::path> write(const metrics::RunRecord& record) const;

  const training::Config& config_;
  bool json_;
  std::string run_;
  std::uint64_t total_steps_;
  metrics::RunRecorder recorder_;
  metrics::Progress progress_;
  std::set<int> met_;  // ranks that have started
  std::size_t rows_shown_ = 0;
  std::uint64_t samples_ = 0;  // in these
  std::size_t evaluations_shown_ = 0;
};

// Prints "dlobd train: <message>" on stderr.
void complain(const base::Error& error);

}  // namespace dlobd::app
