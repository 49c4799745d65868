// The async loop that everything between ranks runs on, in real or in virtual time.
//
// A Loop owns an Asio io_context and a queue of timers. RealLoop sleeps until the next timer or
// event. VirtualLoop never sleeps: when nothing is ready it sets its clock to the next timer, so
// that hours pass in milliseconds and a seed gives the same run each time. Code between ranks takes
// a Loop& and cannot tell which it has.
//
// Threads: a loop belongs to the thread that runs it. Only post() and stop() may be called from
// others.
#pragma once

// Asio 1.22 does not notice by itself that clang has coroutines.
#ifndef ASIO_HAS_CO_AWAIT
#define ASIO_HAS_CO_AWAIT 1
#endif
#ifndef ASIO_HAS_STD_COROUTINE
#define ASIO_HAS_STD_COROUTINE 1
#endif

#include <asio/awaitable.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "base/time.h"
#include "base/unique_function.h"

namespace dlobd::base {

using Executor = asio::io_context::executor_type;

// A coroutine on a loop. Lazy: it starts when awaited or spawned.
template <class T>
using Task = asio::awaitable<T, Executor>;

// The completion token for Asio operations inside a Task.
inline constexpr asio::use_awaitable_t<Executor> use_task;

// Names one pending timer; {} names none.
using TimerId = std::pair<Time, std::uint64_t>;

class Loop {
 public:
  Loop() = default;
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  virtual ~Loop() = default;

  [[nodiscard]] virtual Time now() const = 0;
  [[nodiscard]] virtual bool is_virtual() const = 0;

  // Runs until stop(), or, in virtual time, until nothing is left that could ever happen.
  virtual void run() = 0;
  // Any thread. run() returns soon; it may be called again.
  virtual void stop() = 0;

  // Any thread: runs `function` on the loop, never inside this call.
  template <class F>
  void post(F&& function) {
    asio::post(context_, std::forward<F>(function));
  }

  // Starts a coroutine that nobody waits for. An exception that leaves it ends the program.
  void spawn(Task<void> task);

  TimerId call_at(Time when, UniqueFunction<void()> function);
  TimerId call_after(Duration delay, UniqueFunction<void()> function) {
    return call_at(now() + delay, std::move(function));
  }
  // Nothing happens if the timer has run already.
  void cancel(TimerId timer);

  Task<void> sleep_until(Time when);
  Task<void> sleep_for(Duration delay) { return sleep_until(now() + delay); }
  // Lets everything that is ready run first.
  Task<void> yield();

  asio::io_context& context() { return context_; }

 protected:
  [[nodiscard]] std::optional<Time> next_timer() const;
  // Runs every timer that is due; returns how many ran.
  std::size_t run_due_timers();
  virtual void timers_changed() {}

  asio::io_context context_{1};

 private:
  std::map<TimerId, UniqueFunction<void()>> timers_;
  std::uint64_t last_timer_ = 0;
};

class RealLoop final : public Loop {
 public:
  // How long run() polls before it sleeps. 0 for training, where the cores belong to compute; a
  // micro-benchmark of latency that runs its loop inline sets about 50 us.
  explicit RealLoop(Duration spin = Duration::zero());

  [[nodiscard]] Time now() const override { return steady_now(); }
  [[nodiscard]] bool is_virtual() const override { return false; }
  void run() override;
  void stop() override;

 private:
  void timers_changed() override;

  Duration spin_;
  asio::executor_work_guard<Executor> work_;
  asio::steady_timer wake_;
  std::optional<Time> armed_;
};

class VirtualLoop final : public Loop {
 public:
  [[nodiscard]] Time now() const override { return now_; }
  [[nodiscard]] bool is_virtual() const override { return true; }
  void run() override;
  void stop() override { stopped_ = true; }

 private:
  Time now_ = Time::zero();
  bool stopped_ = false;
};

}  // namespace dlobd::base
