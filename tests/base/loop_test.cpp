#include "base/loop.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/random.h"
#include "base/waiters.h"

namespace dlobd::base {
namespace {

using namespace std::chrono_literals;

Task<void> tick(Loop& loop, std::vector<Time>& seen, Duration period, int times) {
  for (int i = 0; i < times; ++i) {
    co_await loop.sleep_for(period);
    seen.push_back(loop.now());
  }
}

TEST(VirtualLoop, JumpsToTheNextTimerAndEndsWhenNothingIsLeft) {
  VirtualLoop loop;
  std::vector<Time> seen;
  loop.spawn(tick(loop, seen, 1h, 3));
  loop.spawn(tick(loop, seen, 90min, 1));
  loop.run();
  EXPECT_EQ(seen, (std::vector<Time>{1h, 90min, 2h, 3h}));
  EXPECT_EQ(loop.now(), Time(3h));
}

TEST(VirtualLoop, CancelledTimersDoNotRun) {
  VirtualLoop loop;
  int ran = 0;
  const TimerId first = loop.call_after(1s, [&ran] { ++ran; });
  loop.call_after(2s, [&ran] { ran += 10; });
  loop.cancel(first);
  loop.run();
  EXPECT_EQ(ran, 10);
}

TEST(RealLoop, RunsTimersInOrderAndPostsFromOtherThreads) {
  RealLoop loop;
  std::vector<int> order;
  loop.call_after(30ms, [&] {
    order.push_back(2);
    loop.stop();
  });
  loop.call_after(5ms, [&] { order.push_back(1); });
  std::thread other([&] { loop.post([&] { order.push_back(0); }); });
  loop.run();
  other.join();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
}

TEST(RealLoop, SpinningRunsTheSame) {
  RealLoop loop(50us);
  std::vector<Time> seen;
  const Time start = loop.now();
  loop.spawn(tick(loop, seen, 2ms, 3));
  loop.call_after(20ms, [&] { loop.stop(); });
  loop.run();
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_GE(seen.back() - start, 6ms);
}

Task<void> take(Queue<int>& queue, std::vector<int>& taken, std::optional<Error>& error) {
  while (true) {
    auto item = co_await queue.pop();
    if (!item) {
      error = item.error();
      co_return;
    }
    taken.push_back(*item);
  }
}

TEST(Queue, GivesItemsInOrderThenTheError) {
  VirtualLoop loop;
  Queue<int> queue(loop);
  std::vector<int> taken;
  std::optional<Error> error;
  loop.spawn(take(queue, taken, error));
  loop.call_after(1s, [&] { queue.push(1); });
  loop.call_after(2s, [&] {
    queue.push(2);
    queue.push(3);
    queue.fail(Error(ErrorKind::peer_lost, "gone", 3));
    queue.fail(Error(ErrorKind::io_error, "later"));
  });
  loop.run();
  EXPECT_EQ(taken, (std::vector<int>{1, 2, 3}));
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->rank, 3);
}

Task<Result<void>> fail_after(Loop& loop, Duration delay, std::string message) {
  co_await loop.sleep_for(delay);
  if (message.empty()) co_return Result<void>();
  co_return fail(ErrorKind::io_error, message);
}

Task<void> join_three(Loop& loop, Result<void>& result, Time& joined) {
  TaskGroup group(loop);
  group.spawn(fail_after(loop, 3s, "third"));
  group.spawn(fail_after(loop, 1s, ""));
  group.spawn(fail_after(loop, 2s, "second"));
  result = co_await group.join();
  joined = loop.now();
}

TEST(TaskGroup, JoinsAllAndGivesTheFirstErrorInTime) {
  VirtualLoop loop;
  Result<void> result;
  Time joined{0};
  loop.spawn(join_three(loop, result, joined));
  loop.run();
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().message, "second");
  EXPECT_EQ(joined, Time(3s));
}

Task<void> wait_for(Loop& loop, Background& background, std::vector<bool>& ended) {
  background.start(loop.sleep_for(10s));
  for (const auto deadline : {std::optional<Time>(3s), std::optional<Time>(2s),
                              std::optional<Time>(20s), std::optional<Time>()}) {
    const bool over = co_await background.ended(deadline);
    ended.push_back(over);
  }
  EXPECT_EQ(loop.now(), Time(10s));
  background.start(loop.sleep_for(1s));
  const bool over = co_await background.ended();
  ended.push_back(over);
}

TEST(Background, IsWaitedForUntilADeadlineAndRunsOn) {
  VirtualLoop loop;
  Background background(loop);
  std::vector<bool> ended;
  loop.spawn(wait_for(loop, background, ended));
  loop.run();
  EXPECT_EQ(ended, (std::vector<bool>{false, false, true, true, true}));
  EXPECT_EQ(loop.now(), Time(11s));
}

TEST(Event, WakesAllWaiters) {
  VirtualLoop loop;
  Event event(loop);
  int woken = 0;
  auto wait = [&]() -> Task<void> {
    co_await event.wait();
    ++woken;
  };
  for (int i = 0; i < 3; ++i) loop.spawn(wait());
  loop.call_after(1s, [&] { event.set(); });
  loop.run();
  EXPECT_EQ(woken, 3);
}

TEST(Random, IsTheSameSequenceEverywhere) {
  // SplitMix64 from seed 0: published test vector.
  Random random(0);
  EXPECT_EQ(random.next(), 0xe220a8397b1dcdafULL);
  EXPECT_EQ(random.next(), 0x6e789e6aa1b965f4ULL);
  EXPECT_EQ(random.next(), 0x06c45d188009454fULL);
}

TEST(Random, BelowIsUnbiasedEnoughAndInRange) {
  Random random = Random::of({7, 1});
  std::vector<int> seen(5);
  for (int i = 0; i < 50'000; ++i) ++seen.at(random.below(5));
  for (const int count : seen) EXPECT_NEAR(count, 10'000, 400);
}

}  // namespace
}  // namespace dlobd::base
