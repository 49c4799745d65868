// What a parent process has decided about a signal of this one. A signal that is ignored from the
// start (nohup's SIGHUP, the SIGINT of a shell's background job) is not ours to take. Any thread.
#pragma once

#include <array>
#include <csignal>

namespace dlobd::base {

inline bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && (action.sa_flags & SA_SIGINFO) == 0 &&
         action.sa_handler == SIG_IGN;
}

// Calls take(number) for each signal that asks this program to end and is its own to take.
template <typename Take>
void for_each_ending_signal(Take take) {
  for (const int number : std::array{SIGINT, SIGTERM, SIGHUP}) {
    if (!is_ignored(number)) take(number);
  }
}

}  // namespace dlobd::base
