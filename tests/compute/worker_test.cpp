#include "compute/worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

namespace dlobd::compute {
namespace {

using namespace std::chrono_literals;

struct Seen {
  std::vector<int> worked;               // on the worker
  std::vector<int> resumed;              // on the loop
  std::vector<std::thread::id> threads;  // of the work
  std::thread::id resumed_on;
};

base::Task<void> run_one(Worker& worker, Seen& seen, int number) {
  base::UniqueFunction<void()> work = [&seen, number] {
    seen.worked.push_back(number);
    seen.threads.push_back(std::this_thread::get_id());
  };
  co_await worker.run(std::move(work));
  seen.resumed.push_back(number);
  seen.resumed_on = std::this_thread::get_id();
}

base::Task<void> run_many(base::Loop& loop, Worker& worker, Seen& seen, int times) {
  for (int i = 0; i < times; ++i) co_await run_one(worker, seen, i);
  loop.stop();
}

TEST(InlineWorker, ComputesOnTheLoop) {
  base::VirtualLoop loop;
  InlineWorker worker;
  Seen seen;
  loop.spawn(run_many(loop, worker, seen, 3));
  loop.run();
  EXPECT_EQ(seen.worked, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(seen.resumed, seen.worked);
  EXPECT_EQ(seen.threads.front(), std::this_thread::get_id());
}

TEST(ThreadWorker, ComputesOnOneThreadOfItsOwnAndResumesOnTheLoop) {
  base::RealLoop loop;
  ThreadWorker worker(loop);
  Seen seen;
  loop.spawn(run_many(loop, worker, seen, 200));
  loop.run();
  EXPECT_EQ(seen.worked.size(), 200U);
  EXPECT_EQ(seen.resumed, seen.worked);
  EXPECT_EQ(seen.resumed_on, std::this_thread::get_id());
  for (const auto thread : seen.threads) {
    EXPECT_EQ(thread, seen.threads.front());
    EXPECT_NE(thread, std::this_thread::get_id());
  }
}

base::Task<void> queue_up(base::Loop& loop, Worker& worker, Seen& seen, int number, int last) {
  co_await run_one(worker, seen, number);
  if (number == last) loop.stop();
}

TEST(ThreadWorker, RunsInTheOrderOfTheCalls) {
  base::RealLoop loop;
  ThreadWorker worker(loop);
  Seen seen;
  std::vector<int> want;
  for (int i = 0; i < 50; ++i) {
    want.push_back(i);
    loop.spawn(queue_up(loop, worker, seen, i, 49));
  }
  loop.run();
  EXPECT_EQ(seen.worked, want);
  EXPECT_EQ(seen.resumed, want);
}

base::Task<void> slow(base::Loop& loop, Worker& worker, std::atomic<bool>& release, bool& resumed) {
  base::UniqueFunction<void()> work = [&release] {
    while (!release) std::this_thread::yield();
  };
  co_await worker.run(std::move(work));
  resumed = true;
  loop.stop();
}

TEST(ThreadWorker, TheLoopGoesOnWhileItComputes) {
  base::RealLoop loop;
  ThreadWorker worker(loop);
  std::atomic<bool> release = false;
  bool resumed = false;
  loop.spawn(slow(loop, worker, release, resumed));
  loop.call_after(5ms, [&release] { release = true; });  // else it would never end
  loop.run();
  EXPECT_TRUE(resumed);
}

struct Jobs {
  std::shared_ptr<int> held = std::make_shared<int>(1);
  std::promise<void> first_begun;
  std::atomic<bool> release = false;
  std::atomic<int> begun = 0;
  std::atomic<int> finished = 0;
};

base::Task<void> queue_job(Worker& worker, Jobs& jobs) {
  base::UniqueFunction<void()> work = [held = jobs.held, &jobs] {
    if (jobs.begun++ == 0) jobs.first_begun.set_value();
    while (!jobs.release) std::this_thread::yield();
    std::this_thread::sleep_for(1ms);
    ++jobs.finished;
  };
  co_await worker.run(std::move(work));
}

TEST(ThreadWorker, EndsWithWorkInHandAndDropsWhatIsQueued) {
  constexpr int kJobs = 2000;  // of a millisecond
  Jobs jobs;
  {
    base::RealLoop loop;
    auto worker = std::make_unique<ThreadWorker>(loop);
    for (int i = 0; i < kJobs; ++i) loop.spawn(queue_job(*worker, jobs));
    loop.post([&loop] { loop.stop(); });
    loop.run();
    jobs.first_begun.get_future().wait();
    jobs.release = true;
    worker.reset();
  }
  EXPECT_GE(jobs.finished, 1);
  EXPECT_EQ(jobs.finished, jobs.begun);
  EXPECT_LT(jobs.finished, kJobs);
  EXPECT_EQ(jobs.held.use_count(), 1);  // nothing that was queued is left
}

}  // namespace
}  // namespace dlobd::compute
