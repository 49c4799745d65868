// What a person sees of a run, and what is left of it: the live line while reports come in, then
// the record on disk and a few closing lines (or the record as JSON).
//
// A thread of the view's own takes reports in and draws, so that nobody else waits while nobody
// reads. write() does not wait for that thread either, only show() and the destructor do.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"
#include "metrics/progress.h"
#include "metrics/run_recorder.h"
#include "run_ending.h"
#include "training/config.h"
#include "training/step_loop.h"

namespace dlobd::app {

class RunView {
 public:
  RunView(const training::Config& config, std::uint64_t train_records, metrics::RunSource source,
          bool json);
  // Ends the live line.
  ~RunView();
  RunView(const RunView&) = delete;
  RunView& operator=(const RunView&) = delete;

  // A report of `rank`. Any thread; queues and returns.
  void add(int rank, metrics::Blob blob);
  // Any thread.
  void warn(std::string message);
  // What ranks have failed of, as each said in what was added.
  std::map<int, base::Error> failures();

  // Writes the record of all that was added, in a folder called `run`, unless that is taken or
  // empty: then in one of another name. Any thread, once.
  void write(const base::Result<training::End>& reported, std::string_view run = {});
  [[nodiscard]] bool is_written() const { return ending_.has_value(); }
  // After write() has returned: prints how it ended, and gives the exit status: 0, 1 or 130.
  int show();

 private:
  void draw();
  void close();
  void take_in();
  [[nodiscard]] base::Result<training::End> judged(base::Result<training::End> end) const;
  void meet(int rank, const metrics::Environment& environment);
  [[nodiscard]] std::vector<const metrics::StepRow*> latest_of_rank_0() const;
  [[nodiscard]] std::vector<const metrics::StepRow*> latest_of_all() const;
  [[nodiscard]] std::optional<metrics::ProgressPoint> news();

  const training::Config& config_;
  const bool json_;
  const std::uint64_t total_steps_;
  std::optional<RunEnding> ending_;

  std::mutex queue_mutex_;
  std::condition_variable queued_or_closing_;
  std::vector<std::pair<int, metrics::Blob>> queue_;
  bool closing_ = false;

  // Of what was queued and is taken in. Locked before the queue is, never while drawing.
  std::mutex record_mutex_;
  metrics::RunRecorder recorder_;
  std::set<int> met_;    // ranks that have started
  std::string opening_;  // lines to be shown before the live one
  std::size_t rows_shown_ = 0;
  std::uint64_t samples_ = 0;  // in these
  std::size_t evaluations_shown_ = 0;

  metrics::Progress progress_;  // the drawing thread's
  std::thread drawing_;
};

// Prints "dlobd train: <message>" on stderr.
void complain(const base::Error& error);

}  // namespace dlobd::app
