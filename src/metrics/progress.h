// The live line of a run: epoch, step, loss, samples/s, time left. On a terminal one line that is
// rewritten at most ten times a second; elsewhere (a log) a plain line every few seconds. The rate
// is that of the last ten seconds. Belongs to one thread; the clock is the caller's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/time.h"

namespace dlobd::metrics {

// How far a run is.
struct ProgressPoint {
  std::uint64_t epoch = 0;         // from 0
  std::uint64_t step = 0;          // steps done
  std::uint64_t samples = 0;       // seen so far, over all ranks
  double loss = 0;                 // not finite: there is none to show
  std::optional<double> accuracy;  // of the last evaluation, 0 to 1
};

struct ProgressGoal {
  std::optional<std::uint64_t> epochs;  // nothing: steps or a target end the run
  std::optional<std::uint64_t> steps;   // in all; nothing: not known
};

struct ProgressPace {
  std::optional<double> samples_per_second;
  std::optional<double> seconds_left;
};

// "epoch 1/3  step 120/938  loss 0.1234  accuracy 97.1 %  4,512 samples/s  00:12 left"
// In a narrower space parts go: the accuracy, the epoch, the rate, the time left, the loss.
inline constexpr std::size_t kWholeLine = static_cast<std::size_t>(-1);
std::string progress_line(const ProgressPoint& point, const ProgressGoal& goal,
                          const ProgressPace& pace, std::size_t width = kWholeLine);
// "01:05", "1:01:05"
std::string clock_text(double seconds);

class Progress {
 public:
  // Gets whole pieces of text, line ends included.
  using Write = std::function<void(std::string_view)>;
  // How wide the terminal is now; 0: it does not say.
  using Columns = std::function<std::size_t()>;
  Progress(ProgressGoal goal, bool terminal, Write write, Columns columns = {})
      : goal_(goal), terminal_(terminal), write_(std::move(write)), columns_(std::move(columns)) {}

  // Shows the point if it is time to. `now` never goes back.
  void update(const ProgressPoint& point, base::Time now);
  // Shows the last point if it has not been shown, and ends the line. Once, before other output
  // follows.
  void finish();

 private:
  void show();
  [[nodiscard]] ProgressPace pace() const;

  ProgressGoal goal_;
  bool terminal_;
  Write write_;
  Columns columns_;
  std::optional<ProgressPoint> last_;
  base::Time shown_at_{0};
  bool shown_any_ = false;
  bool shown_last_ = true;
  std::size_t width_ = 0;  // of the line on the terminal
  std::deque<std::pair<base::Time, ProgressPoint>> window_;
};

}  // namespace dlobd::metrics
