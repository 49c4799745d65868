// Durations and points in time are integer nanoseconds on both clocks. A Time counts from the
// start of its loop's clock (real: the steady clock; virtual: 0 when the loop is made).
#pragma once

#include <chrono>
#include <cstdint>

namespace dlobd::base {

using Duration = std::chrono::nanoseconds;
using Time = std::chrono::nanoseconds;

inline Time steady_now() {
  return std::chrono::duration_cast<Time>(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace dlobd::base
