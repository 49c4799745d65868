// When it is next looked whether others make progress. A look that comes late by more than a
// quarter of the time-out says that this process itself did not run (stopped, swapped): what the
// others did meanwhile lies unread, so such a look judges nobody, and all get their time again.
//
// Threads: belongs to the loop's thread.
#pragma once

#include "base/time.h"

namespace dlobd::base {

class Lookout {
 public:
  // Looks each quarter of what the others are given.
  explicit Lookout(Duration timeout) : period_(timeout / 4) {}

  void arm(Time now) { due_ = now + period_; }
  [[nodiscard]] Time due() const { return due_; }
  [[nodiscard]] bool on_time(Time now) const { return now - due_ <= period_; }

 private:
  Duration period_;
  Time due_{0};
};

}  // namespace dlobd::base
