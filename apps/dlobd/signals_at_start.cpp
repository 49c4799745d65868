#include "signals_at_start.h"

#include <array>
#include <csignal>

namespace dlobd::app {
namespace {

constexpr std::array kEnding{SIGINT, SIGTERM, SIGHUP, SIGQUIT};

// As the parent left them; only what hold_signals() has seen.
bool held = false;
sigset_t ignored;
sigset_t mask;

#ifndef DLOBD_SANITIZED
constexpr std::array kCrashes{SIGSEGV, SIGBUS, SIGILL, SIGABRT, SIGFPE};

// A library may be half set up when a signal comes: it waits until all are.
void hold_signals() {
  sigset_t ending;
  sigemptyset(&ending);
  sigemptyset(&ignored);
  for (const int number : kEnding) {
    struct sigaction now {};
    sigaddset(&ending, number);
    if (sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) {
      sigaddset(&ignored, number);
    }
  }
  held = sigprocmask(SIG_BLOCK, &ending, &mask) == 0;
}

// The linker's table of what runs before the constructors of all shared libraries. A sanitizer's
// own entry would have to come first, so a sanitized program has none.
[[gnu::used, gnu::section(".preinit_array")]] void (*const kHoldSignals)() = hold_signals;
#endif

void take_back(int number) {
  struct sigaction now {};
  if (sigaction(number, nullptr, &now) != 0 || now.sa_handler == SIG_IGN) return;
  std::signal(number, held && sigismember(&ignored, number) == 1 ? SIG_IGN : SIG_DFL);
}

}  // namespace

void own_signals() {
  for (const int number : kEnding) take_back(number);
#ifndef DLOBD_SANITIZED
  for (const int number : kCrashes) take_back(number);
#endif
  std::signal(SIGCHLD, SIG_DFL);  // ignored, no child of ours could be waited for
  if (held) sigprocmask(SIG_SETMASK, &mask, nullptr);
}

}  // namespace dlobd::app
