// Where a replica computes. ThreadWorker has one thread of its own, so that the loop goes on moving
// bytes and beating while libtorch computes. InlineWorker computes at once, on the loop: for
// virtual time, where a second thread would make runs differ.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "base/loop.h"
#include "base/waiters.h"

namespace dlobd::compute {

class Worker {
 public:
  virtual ~Worker() = default;
  // Runs `work` and resumes the caller on the loop when it is done. In order, one at a time.
  virtual base::Task<void> run(base::UniqueFunction<void()> work) = 0;
};

class InlineWorker final : public Worker {
 public:
  base::Task<void> run(base::UniqueFunction<void()> work) override;
};

class ThreadWorker final : public Worker {
 public:
  explicit ThreadWorker(base::Loop& loop);
  // Finishes the work in hand; what is queued is never run, and its callers never resumed.
  ~ThreadWorker() override;
  base::Task<void> run(base::UniqueFunction<void()> work) override;

 private:
  void serve();

  base::Loop& loop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<base::UniqueFunction<void()>> queue_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace dlobd::compute
