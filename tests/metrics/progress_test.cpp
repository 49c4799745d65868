#include "metrics/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace dlobd::metrics {
namespace {

using std::chrono::milliseconds;

ProgressPoint at_step(std::uint64_t step) {
  ProgressPoint point;
  point.step = step;
  point.samples = step * 64;
  point.loss = 0.5;
  return point;
}

ProgressGoal three_epochs() {
  ProgressGoal goal;
  goal.epochs = 3;
  goal.steps = 2814;
  return goal;
}

ProgressPace a_minute_left() {
  ProgressPace pace;
  pace.samples_per_second = 1234567.4;
  pace.seconds_left = 64.2;
  return pace;
}

TEST(Progress, TheLineSaysWhatIsKnown) {
  ProgressPoint point = at_step(120);
  point.loss = 0.123456;
  EXPECT_EQ(progress_line(point, {}, {}), "epoch 1  step 120  loss 0.1235");
  point.accuracy = 0.97123;
  const ProgressGoal goal = three_epochs();
  const ProgressPace pace = a_minute_left();
  EXPECT_EQ(
      progress_line(point, goal, pace),
      "epoch 1/3  step 120/2814  loss 0.1235  accuracy 97.12 %  1,234,567 samples/s  01:05 left");
}

TEST(Progress, ANarrowLineLosesWhatMattersLeast) {
  ProgressPoint point = at_step(120);
  point.accuracy = 0.97123;
  const ProgressGoal goal = three_epochs();
  const ProgressPace pace = a_minute_left();
  const std::string whole = progress_line(point, goal, pace);
  EXPECT_EQ(progress_line(point, goal, pace, whole.size()), whole);
  EXPECT_EQ(progress_line(point, goal, pace, 79),
            "epoch 1/3  step 120/2814  loss 0.5000  1,234,567 samples/s  01:05 left");
  EXPECT_EQ(progress_line(point, goal, pace, 65),
            "step 120/2814  loss 0.5000  1,234,567 samples/s  01:05 left");
  EXPECT_EQ(progress_line(point, goal, pace, 40), "step 120/2814  loss 0.5000  01:05 left");
  EXPECT_EQ(progress_line(point, goal, pace, 20), "step 120/2814");
  for (std::size_t width = 1; width <= whole.size(); ++width) {
    EXPECT_LE(progress_line(point, goal, pace, width).size(), width);
  }
}

TEST(Progress, ATerminalThatIsMadeNarrowerHasNoLineThatWraps) {
  std::string text;
  std::size_t columns = 60;
  Progress progress(
      {}, true, [&](std::string_view piece) { text += piece; }, [&] { return columns; });
  progress.update(at_step(1), milliseconds(0));
  progress.update(at_step(1000), milliseconds(500));
  EXPECT_GT(text.size(), 40U);
  text.clear();
  columns = 30;
  progress.update(at_step(2000), milliseconds(1000));
  EXPECT_EQ(text.front(), '\r');
  EXPECT_EQ(text.size(), 30U);  // the line, blanks over the longer one before, and '\r'
  EXPECT_NE(text.find("step 2000"), std::string::npos) << text;
}

TEST(Progress, TimesRoundUp) {
  EXPECT_EQ(clock_text(0), "00:00");
  EXPECT_EQ(clock_text(59.2), "01:00");
  EXPECT_EQ(clock_text(3665), "1:01:05");
}

TEST(Progress, ATerminalLineIsRewrittenAtMostTenTimesASecond) {
  std::string text;
  ProgressGoal goal;
  goal.steps = 1000;
  Progress progress(goal, true, [&](std::string_view piece) { text += piece; });
  for (std::uint64_t ms = 0; ms < 1000; ++ms) {
    progress.update(at_step(ms + 1), milliseconds(ms));
  }
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 10);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  progress.finish();
  // 64 samples a millisecond; the last point is shown though it came between two writes.
  EXPECT_NE(text.find("step 1000/1000  loss 0.5000  64,000 samples/s  00:00 left"),
            std::string::npos)
      << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_TRUE(text.ends_with("\n"));
}

TEST(Progress, AShorterLineLeavesNothingOfALongerOne) {
  std::string text;
  Progress progress({}, true, [&](std::string_view piece) { text = piece; });
  ProgressPoint point = at_step(1);
  point.loss = 123456;
  progress.update(point, milliseconds(0));
  const std::size_t longest = text.size();
  point.loss = 1;
  progress.update(point, milliseconds(200));
  EXPECT_GE(text.size(), longest);
}

TEST(Progress, ALogGetsAPlainLineEveryFewSeconds) {
  std::string text;
  Progress progress({}, false, [&](std::string_view piece) { text += piece; });
  for (std::uint64_t second = 0; second < 12; ++second) {
    progress.update(at_step(second * 10), std::chrono::seconds(second));
  }
  progress.finish();
  progress.finish();
  EXPECT_EQ(text.find('\r'), std::string::npos);
  // At 0, 5, 10 seconds and the end.
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
  EXPECT_NE(text.find("step 50  loss 0.5000  640 samples/s\n"), std::string::npos) << text;
}

TEST(Progress, TheRateForgetsWhatIsLongAgo) {
  std::string text;
  Progress progress({}, false, [&](std::string_view piece) { text = piece; });
  // Ten samples a second for a minute, then a hundred.
  ProgressPoint point;
  for (int second = 0; second <= 90; ++second) {
    progress.update(point, std::chrono::seconds(second));
    point.samples += second < 60 ? 10 : 100;
  }
  EXPECT_NE(text.find("  100 samples/s"), std::string::npos) << text;
}

TEST(Progress, ARunWithoutAStepPrintsNothing) {
  std::string text;
  Progress progress({}, true, [&](std::string_view piece) { text += piece; });
  progress.finish();
  EXPECT_EQ(text, "");
}

}  // namespace
}  // namespace dlobd::metrics
