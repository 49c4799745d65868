// The beat that hub and members share: a tick each quarter of the peer time-out, on which they send
// heartbeats and look for silence. A tick that comes late by more than a quarter says that this
// process itself did not run (stopped, swapped): what the others sent meanwhile lies unread, so
// such a tick judges nobody.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/loop.h"

namespace dlobd::cluster {

class Beat {
 public:
  Beat(base::Loop& loop, base::Duration peer_timeout)
      : loop_(loop), period_(peer_timeout / 4), timeout_(peer_timeout) {}

  // `owner` keeps nothing alive: after its end no tick runs. on_tick(may_judge).
  template <class Owner, class F>
  void start(std::weak_ptr<Owner> owner, F on_tick) {
    running_ = true;
    due_ = loop_.now() + period_;
    timer_ = loop_.call_at(due_, [this, owner = std::move(owner), on_tick]() mutable {
      const auto alive = owner.lock();
      if (!alive || !running_) return;
      const bool on_time = loop_.now() - due_ <= period_;
      const F again = on_tick;
      start(owner, again);
      on_tick(*alive, on_time);
    });
  }
  void stop() {
    if (running_) loop_.cancel(timer_);
    running_ = false;
  }
  [[nodiscard]] bool silent(base::Time last_heard) const {
    return loop_.now() - last_heard >= timeout_;
  }
  [[nodiscard]] std::string no_heartbeat() const {
    return fmt::format("no heartbeat for {:.1f} s",
                       std::chrono::duration<double>(timeout_).count());
  }

 private:
  base::Loop& loop_;
  base::Duration period_;
  base::Duration timeout_;
  base::Time due_{0};
  base::TimerId timer_;
  bool running_ = false;
};

}  // namespace dlobd::cluster
