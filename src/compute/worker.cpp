#include "compute/worker.h"

#include <utility>

namespace dlobd::compute {

base::Task<void> InlineWorker::run(base::UniqueFunction<void()> work) {
  work();
  co_return;
}

ThreadWorker::ThreadWorker(base::Loop& loop) : loop_(loop), thread_([this] { serve(); }) {}

ThreadWorker::~ThreadWorker() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

base::Task<void> ThreadWorker::run(base::UniqueFunction<void()> work) {
  auto begin = [this, &work](auto handler) {
    // The thread runs the work; what resumes the caller goes back to the loop untouched.
    auto job = [this, work = std::move(work), resume = std::move(handler)]() mutable {
      work();
      work = {};  // what it holds goes before the caller runs on
      loop_.post(std::move(resume));
    };
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      queue_.emplace_back(std::move(job));
    }
    changed_.notify_one();
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<base::Executor>&, void()>(
      begin, base::use_task);
}

void ThreadWorker::serve() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (ending_) return;
    base::UniqueFunction<void()> job = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    job();
    job = {};
    lock.lock();
  }
}

}  // namespace dlobd::compute
