#include "metrics/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace dlobd::metrics {
namespace {

constexpr base::Duration kTerminalEvery = std::chrono::milliseconds(100);
constexpr base::Duration kLogEvery = std::chrono::seconds(5);
constexpr base::Duration kWindow = std::chrono::seconds(10);

// 1234567 -> "1,234,567"
std::string grouped(double value) {
  std::string text = fmt::format("{:.0f}", value);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

}  // namespace

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::ceil(seconds));
  const std::uint64_t minutes = whole / 60;
  if (minutes < 60) return fmt::format("{:02}:{:02}", minutes, whole % 60);
  return fmt::format("{}:{:02}:{:02}", minutes / 60, minutes % 60, whole % 60);
}

std::string progress_line(const ProgressPoint& point, const ProgressGoal& goal,
                          const ProgressPace& pace, std::size_t width) {
  const auto of = [](std::uint64_t value, const std::optional<std::uint64_t>& total) {
    return total ? fmt::format("{}/{}", value, *total) : fmt::format("{}", value);
  };
  // In the order of the line; the higher the rank, the sooner a part goes.
  struct Part {
    int rank;
    std::string text;
  };
  std::vector<Part> parts;
  parts.push_back({4, fmt::format("epoch {}", of(point.epoch + 1, goal.epochs))});
  parts.push_back({0, fmt::format("step {}", of(point.step, goal.steps))});
  if (std::isfinite(point.loss)) parts.push_back({1, fmt::format("loss {:.4f}", point.loss)});
  if (point.accuracy) {
    parts.push_back({5, fmt::format("accuracy {:.2f} %", 100 * *point.accuracy)});
  }
  if (pace.samples_per_second) {
    parts.push_back({3, fmt::format("{} samples/s", grouped(*pace.samples_per_second))});
  }
  if (pace.seconds_left) {
    parts.push_back({2, fmt::format("{} left", clock_text(*pace.seconds_left))});
  }
  while (true) {
    std::string line;
    for (const Part& part : parts) line += (line.empty() ? "" : "  ") + part.text;
    if (line.size() <= width) return line;
    if (parts.size() == 1) return line.substr(0, width);
    parts.erase(std::max_element(parts.begin(), parts.end(),
                                 [](const Part& a, const Part& b) { return a.rank < b.rank; }));
  }
}

ProgressPace Progress::pace() const {
  ProgressPace pace;
  if (window_.size() < 2) return pace;
  const auto& [since, first] = window_.front();
  const auto& [until, last] = window_.back();
  const double seconds = std::chrono::duration<double>(until - since).count();
  if (seconds <= 0 || last.samples <= first.samples) return pace;
  pace.samples_per_second = static_cast<double>(last.samples - first.samples) / seconds;
  if (goal_.steps && last.step > first.step && *goal_.steps >= last.step) {
    pace.seconds_left = seconds / static_cast<double>(last.step - first.step) *
                        static_cast<double>(*goal_.steps - last.step);
  }
  return pace;
}

void Progress::update(const ProgressPoint& point, base::Time now) {
  // Points a few ms apart say nothing more: one a hundredth of the window.
  if (window_.size() < 2 || now - window_[window_.size() - 2].first >= kWindow / 100) {
    window_.emplace_back(now, point);
  } else {
    window_.back() = {now, point};
  }
  while (window_.size() > 2 && now - window_[1].first >= kWindow) window_.pop_front();
  last_ = point;
  shown_last_ = false;
  if (shown_any_ && now - shown_at_ < (terminal_ ? kTerminalEvery : kLogEvery)) return;
  shown_at_ = now;
  show();
}

void Progress::show() {
  shown_any_ = true;
  shown_last_ = true;
  if (!terminal_) {
    write_(progress_line(*last_, goal_, pace()) + "\n");
    return;
  }
  // In the last column the cursor of some terminals stands on the next line already.
  const std::size_t columns = columns_ ? columns_() : 0;
  const std::size_t room = columns > 1 ? columns - 1 : kWholeLine;
  std::string line = progress_line(*last_, goal_, pace(), room);
  const std::size_t width = line.size();
  // Blanks over what a longer line left.
  const std::size_t covered = std::min(width_, room);
  if (width < covered) line.append(covered - width, ' ');
  width_ = width;
  write_("\r" + line);
}

void Progress::finish() {
  if (!last_) return;
  if (!shown_last_) show();
  if (terminal_) write_("\n");
  last_.reset();
}

}  // namespace dlobd::metrics
