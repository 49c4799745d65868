// Keeps this program's signal handlers over a call that installs others: shm takes SIGINT, SIGTERM,
// SIGSEGV and SIGBUS, to remove its files. Where the program had no handler, shm's stays. The
// loop's signals are the program's to decide upon. Main thread or loop thread, when a signal is
// unlikely.
#pragma once

#include <array>
#include <csignal>
#include <cstddef>

namespace dlobd::transport::fabric {

class KeptSignals {
 public:
  KeptSignals() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      known_[i] = ::sigaction(kSignals[i], nullptr, &before_[i]) == 0;
    }
  }
  ~KeptSignals() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      const bool had = (before_[i].sa_flags & SA_SIGINFO) != 0 || before_[i].sa_handler != SIG_DFL;
      if (known_[i] && had) ::sigaction(kSignals[i], &before_[i], nullptr);
    }
  }
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;

 private:
  static constexpr std::array<int, 4> kSignals = {SIGINT, SIGTERM, SIGSEGV, SIGBUS};
  std::array<struct sigaction, 4> before_{};
  std::array<bool, 4> known_{};
};

}  // namespace dlobd::transport::fabric
