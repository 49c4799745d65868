// What every verb says to the shell. 0: done.
#pragma once

namespace dlobd::app {

inline constexpr int kFailed = 1;        // a run that began
inline constexpr int kRefused = 2;       // before anything ran
inline constexpr int kTargetMissed = 4;  // of a launched rank, to its launcher only
inline constexpr int kInterrupted = 130;

}  // namespace dlobd::app
