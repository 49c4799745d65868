#include "base/waiters.h"

namespace dlobd::base {

Task<void> Waiters::wait() {
  auto keep = [this](auto handler) { waiting_.emplace_back(std::move(handler)); };
  co_await asio::async_initiate<const asio::use_awaitable_t<Executor>&, void()>(keep, use_task);
}

void Waiters::wake_one() {
  if (waiting_.empty()) return;
  auto resume = std::move(waiting_.front());
  waiting_.pop_front();
  loop_.post(std::move(resume));
}

void Waiters::wake_all() {
  while (!waiting_.empty()) wake_one();
}

void TaskGroup::spawn(Task<Result<void>> task) {
  ++running_;
  loop_.spawn(run(std::move(task)));
}

Task<void> TaskGroup::run(Task<Result<void>> task) {
  auto result = co_await std::move(task);
  if (!result && !error_) error_ = result.error();
  if (--running_ == 0) waiters_.wake_all();
}

Task<Result<void>> TaskGroup::join() {
  while (running_ > 0) co_await waiters_.wait();
  if (error_) co_return base::fail(*error_);
  co_return Result<void>();
}

}  // namespace dlobd::base
