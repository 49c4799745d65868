#include "transport/fabric/escape.h"

#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <ctime>

#include "base/check.h"

namespace dlobd::transport::fabric {

namespace {

thread_local Escape* t_within = nullptr;

int signal_number() {
  return SIGRTMIN + 5;
}

base::Duration cpu_of(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

Escape::~Escape() {
  if (!watcher_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ended_.notify_all();
  watcher_.join();
}

void Escape::watch() {
  struct sigaction action {};
  action.sa_handler = &Escape::jump;
  // The jump leaves the handler for good: the signal must not stay blocked.
  action.sa_flags = SA_NODEFER | SA_RESTART;
  CHECK(::sigaction(signal_number(), &action, nullptr) == 0, "signal {}", signal_number());
  clockid_t clock{};
  CHECK(::pthread_getcpuclockid(::pthread_self(), &clock) == 0, "no clock of a thread");
  // Signals to the program are none of the watcher's.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  watcher_ = std::thread([this, whom = ::pthread_self(), clock] { look(whom, clock); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ssize_t Escape::guarded(ssize_t (*call)(const void*), const void* of) {
  std::jmp_buf back;
  if (_setjmp(back) != 0) {
    t_within = nullptr;
    calls_.fetch_add(1, std::memory_order_relaxed);
    return kNever;
  }
  back_ = &back;
  t_within = this;
  calls_.store(calls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const ssize_t result = call(of);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  t_within = nullptr;
  calls_.store(calls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return result;
}

// On the thread that calls: either within the call that was given up, or after it.
void Escape::jump(int) {
  Escape* const within = t_within;
  if (within == nullptr) return;
  const std::uint64_t now = within->calls_.load(std::memory_order_relaxed);
  if (now % 2 == 0 || now != within->given_up_.load(std::memory_order_relaxed)) return;
  _longjmp(*within->back_, 1);
}

void Escape::look(pthread_t whom, clockid_t clock) {
  const base::Duration interval = std::clamp<base::Duration>(
      limit_ / 4, std::chrono::milliseconds(10), std::chrono::milliseconds(250));
  std::uint64_t seen = 0;
  base::Duration then{0};
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, interval, [this] { return ending_; })) {
    const std::uint64_t now = calls_.load(std::memory_order_relaxed);
    if (now % 2 == 0) continue;
    if (now != seen) {
      seen = now;
      then = cpu_of(clock);
    } else if (cpu_of(clock) - then >= limit_) {
      given_up_.store(now, std::memory_order_relaxed);
      ::pthread_kill(whom, signal_number());
    }
  }
}

}  // namespace dlobd::transport::fabric
