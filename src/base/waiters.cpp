#include "base/waiters.h"

#include "base/check.h"

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

void Background::start(Task<void> task) {
  CHECK(!running_, "a task runs in the background already");
  running_ = true;
  loop_.spawn(run(std::move(task)));
}

Task<void> Background::run(Task<void> task) {
  co_await std::move(task);
  running_ = false;
  waiters_.wake_all();
}

Task<bool> Background::ended(std::optional<Time> deadline) {
  TimerId timer;
  if (running_ && deadline) timer = loop_.call_at(*deadline, [this] { waiters_.wake_all(); });
  while (running_ && !(deadline && loop_.now() >= *deadline)) co_await waiters_.wait();
  loop_.cancel(timer);
  co_return !running_;
}

}  // namespace dlobd::base
