#include "base/loop.h"

#include <asio/co_spawn.hpp>
#include <exception>

namespace dlobd::base {

void Loop::spawn(Task<void> task) {
  asio::co_spawn(context_, std::move(task), [](const std::exception_ptr& thrown) {
    if (thrown) std::rethrow_exception(thrown);
  });
}

TimerId Loop::call_at(Time when, UniqueFunction<void()> function) {
  const TimerId id(when, ++last_timer_);
  timers_.emplace(id, std::move(function));
  timers_changed();
  return id;
}

void Loop::cancel(TimerId timer) {
  timers_.erase(timer);
}

namespace {

// Suspends the coroutine and hands its continuation to `keep`.
template <class Keep>
Task<void> suspend(Keep keep) {
  co_await asio::async_initiate<const asio::use_awaitable_t<Executor>&, void()>(
      [&keep](auto handler) { keep(UniqueFunction<void()>(std::move(handler))); }, use_task);
}

}  // namespace

Task<void> Loop::sleep_until(Time when) {
  auto keep = [this, when](UniqueFunction<void()> resume) { call_at(when, std::move(resume)); };
  co_await suspend(keep);
}

Task<void> Loop::yield() {
  auto keep = [this](UniqueFunction<void()> resume) { post(std::move(resume)); };
  co_await suspend(keep);
}

std::optional<Time> Loop::next_timer() const {
  if (timers_.empty()) return std::nullopt;
  return timers_.begin()->first.first;
}

std::size_t Loop::run_due_timers() {
  std::size_t ran = 0;
  const Time due = now();
  while (!timers_.empty() && timers_.begin()->first.first <= due) {
    auto node = timers_.extract(timers_.begin());
    node.mapped()();
    ++ran;
  }
  return ran;
}

RealLoop::RealLoop(Duration spin) : spin_(spin), work_(context_.get_executor()), wake_(context_) {}

void RealLoop::timers_changed() {
  const auto next = next_timer();
  if (!next || (armed_ && *armed_ <= *next)) return;
  armed_ = next;
  wake_.expires_at(std::chrono::steady_clock::time_point(*next));
  wake_.async_wait([this](const std::error_code& error) {
    if (error) return;  // armed again for an earlier timer
    armed_.reset();
    run_due_timers();
    timers_changed();
  });
}

void RealLoop::run() {
  context_.restart();
  if (spin_ == Duration::zero()) {
    context_.run();
    return;
  }
  Time idle_since = now();
  while (!context_.stopped()) {
    if (context_.poll() > 0) {
      idle_since = now();
    } else if (now() - idle_since > spin_) {
      context_.run_one();
      idle_since = now();
    }
  }
}

void RealLoop::stop() {
  context_.stop();
}

void VirtualLoop::run() {
  stopped_ = false;
  while (!stopped_) {
    context_.restart();
    if (context_.poll_one() > 0) continue;
    const auto next = next_timer();
    if (!next) return;
    if (*next > now_) now_ = *next;
    run_due_timers();
  }
}

}  // namespace dlobd::base
