#include "transport/fabric/progress.h"

#include <sched.h>

#include <algorithm>
#include <ctime>

namespace dlobd::transport::fabric {

namespace {

// Others on the loop wait no longer than this for a burst of polls.
constexpr base::Duration kBurst = std::chrono::microseconds(2);
// Then the core is offered to others between bursts.
constexpr base::Duration kAlone = std::chrono::microseconds(6);
constexpr int kPollsPerLook = 8;  // at the clock
constexpr base::Duration kFirstNap = std::chrono::microseconds(25);
// What was posted to a peer that computes may take so long: a nap would miss its end.
constexpr base::Duration kExpecting = std::chrono::milliseconds(1);
// A descriptor is trusted for so long.
constexpr base::Duration kLongestWait = std::chrono::milliseconds(20);
constexpr std::uint64_t kSampled = 64;  // one burst in so many

base::Duration thread_cpu() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

Progress::Progress(base::Loop& loop, base::Duration spin, base::Duration nap, int descriptor)
    : loop_(loop), spin_(spin), nap_(nap) {
  if (descriptor >= 0) descriptor_.emplace(loop.context().get_executor(), descriptor);
}

void Progress::pause() {
#if defined(__x86_64__)
  for (int i = 0; i < 5; ++i) __builtin_ia32_pause();
#endif
}

void Progress::start(Calls calls) {
  calls_ = std::move(calls);
  running_ = true;
  busy_ = loop_.now();
  schedule();
}

void Progress::kick(base::Time now) {
  if (!running_) return;
  busy_ = now;
  if (!sleeping_) return;
  ++sleeps_;  // what the sleep has pending finds another number
  sleeping_ = false;
  loop_.cancel(timer_);
  if (descriptor_) {
    std::error_code ignored;
    descriptor_->cancel(ignored);
  }
  schedule();
}

void Progress::stop() {
  if (sleeping_) loop_.cancel(timer_);
  running_ = false;  // calls_ stay: one of them may be what stops
  sleeping_ = false;
  // It is the provider's, and closed by it.
  if (descriptor_) descriptor_->release();
  descriptor_.reset();
}

void Progress::schedule() {
  if (scheduled_) return;
  scheduled_ = true;
  loop_.post([self = shared_from_this()] {
    self->scheduled_ = false;
    self->turn();
  });
}

void Progress::turn() {
  if (!running_ || sleeping_) return;
  base::Time now = loop_.now();
  turned_ = now;
  const bool idle = now - busy_ >= patience(now);
  const bool found = burst(idle, now);
  if (running_) calls_.look(now);
  if (!running_) return;
  if (found) {
    busy_ = loop_.now();  // what was found may have taken its time
    next_nap_ = kFirstNap;
    schedule();
  } else if (const base::Duration since = now - busy_; since < patience(now)) {
    // The peer that is waited for, or a computation, may want this core.
    if (since >= kAlone) ::sched_yield();
    schedule();
  } else {
    sleep();
  }
}

// How long it is polled for the next event, by `now`.
base::Duration Progress::patience(base::Time now) const {
  if (descriptor_ || spin_ >= kExpecting || now - busy_ < spin_) return spin_;
  return calls_.expects() ? kExpecting : spin_;
}

bool Progress::burst(bool once, base::Time& now) {
  const bool sampled = bursts_++ % kSampled == 0;
  const base::Duration cpu = sampled ? thread_cpu() : base::Duration(0);
  const base::Time end = now + kBurst;
  std::uint64_t empty = 0;
  bool found = false;
  do {
    for (int i = 0; i < kPollsPerLook && running_ && !found; ++i) {
      found = calls_.poll() > 0;
      if (found) break;
      ++empty;
      if (once) break;
      pause();
    }
    if (found || once || !running_) break;
    now = loop_.now();
  } while (now < end);
  polls_ += empty;
  if (sampled && !found && empty > 0) {
    sampled_polls_ += empty;
    sampled_cpu_ += thread_cpu() - cpu;
  }
  return found;
}

void Progress::sleep() {
  base::Duration longest = next_nap_;
  next_nap_ = std::min(nap_, std::max(kFirstNap, next_nap_ * 2));
  const bool waits = descriptor_ && calls_.may_wait();
  if (waits) longest = kLongestWait;
  sleeping_ = true;
  const std::uint64_t number = sleeps_;
  const auto self = shared_from_this();
  timer_ = loop_.call_after(longest, [self, number] { self->wake(number); });
  if (!waits) return;
  descriptor_->async_wait(asio::posix::descriptor_base::wait_read,
                          [self, number](const std::error_code&) { self->wake(number); });
}

void Progress::wake(std::uint64_t sleep) {
  if (!running_ || !sleeping_ || sleep != sleeps_) return;
  ++sleeps_;
  sleeping_ = false;
  loop_.cancel(timer_);
  if (descriptor_) {
    std::error_code ignored;
    descriptor_->cancel(ignored);
  }
  turn();
}

base::Duration Progress::polling_cpu() const {
  if (sampled_polls_ == 0) return base::Duration(0);
  return base::Duration(static_cast<std::int64_t>(static_cast<double>(sampled_cpu_.count()) /
                                                  static_cast<double>(sampled_polls_) *
                                                  static_cast<double>(polls_)));
}

}  // namespace dlobd::transport::fabric
