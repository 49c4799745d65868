// Coroutines that wait for each other on one loop. All classes here belong to the loop's thread.
//
//   Event     set once, waited for by any number
//   Queue<T>  pushed by some, popped by others; fail() ends every pop with the error
//   TaskGroup runs several Result<void> coroutines at once; join() gives the first error
//   Background runs one coroutine beside its owner, who waits for it no longer than it likes
//
// Resuming goes through the loop's queue, never inside set() or push(), so nothing runs
// re-entrantly.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "base/loop.h"
#include "base/result.h"

namespace dlobd::base {

class Waiters {
 public:
  explicit Waiters(Loop& loop) : loop_(loop) {}

  // Suspends until woken. Conditions are checked by the caller, in a loop.
  Task<void> wait();
  void wake_one();
  void wake_all();
  [[nodiscard]] bool empty() const { return waiting_.empty(); }

 private:
  Loop& loop_;
  std::deque<UniqueFunction<void()>> waiting_;
};

class Event {
 public:
  explicit Event(Loop& loop) : waiters_(loop) {}

  Task<void> wait() {
    while (!set_) co_await waiters_.wait();
  }
  void set() {
    set_ = true;
    waiters_.wake_all();
  }
  void reset() { set_ = false; }
  [[nodiscard]] bool is_set() const { return set_; }

 private:
  Waiters waiters_;
  bool set_ = false;
};

template <class T>
class Queue {
 public:
  explicit Queue(Loop& loop) : waiters_(loop) {}

  void push(T item) {
    items_.push_back(std::move(item));
    waiters_.wake_one();
  }

  // Items that came before a failure are still given out.
  Task<Result<T>> pop() {
    while (items_.empty() && !error_) co_await waiters_.wait();
    if (items_.empty()) co_return base::fail(*error_);
    Result<T> item(std::move(items_.front()));
    items_.pop_front();
    co_return item;
  }

  // The first error stays.
  void fail(Error error) {
    if (!error_) error_ = std::move(error);
    waiters_.wake_all();
  }

  [[nodiscard]] std::size_t size() const { return items_.size(); }

 private:
  std::deque<T> items_;
  std::optional<Error> error_;
  Waiters waiters_;
};

class TaskGroup {
 public:
  explicit TaskGroup(Loop& loop) : loop_(loop), waiters_(loop) {}

  // The group must outlive its tasks: join() before it goes.
  void spawn(Task<Result<void>> task);
  // Waits for all; the first error in time, if any.
  Task<Result<void>> join();

 private:
  Task<void> run(Task<Result<void>> task);

  Loop& loop_;
  Waiters waiters_;
  std::size_t running_ = 0;
  std::optional<Error> error_;
};

class Background {
 public:
  explicit Background(Loop& loop) : loop_(loop), waiters_(loop) {}

  // While nothing else runs here. This must outlive the task: ended() before it goes.
  void start(Task<void> task);
  // Waits until nothing runs, or until the deadline: whether nothing runs.
  Task<bool> ended(std::optional<Time> deadline = std::nullopt);

 private:
  Task<void> run(Task<void> task);

  Loop& loop_;
  Waiters waiters_;
  bool running_ = false;
};

}  // namespace dlobd::base
