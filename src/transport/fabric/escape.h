// A way out of a provider's call that never ends. shm's queues are locked by spinning, and a
// process that is killed or stopped with a lock held leaves all who want it to spin. A thread of
// its own looks whether the loop's thread has spent `limit` of processor time within one call; if
// so, it sends that thread a signal, whose handler jumps back to where the call was made.
//
// What the call was about to change is then in no known state: that endpoint must neither be used
// any more nor closed.
//
// Threads: one Escape a loop's thread; run() is called on the thread that called watch(). Takes
// the signal SIGRTMIN + 5 from the first watch() on.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <csetjmp>
#include <cstdint>
#include <limits>
#include <mutex>
#include <thread>

#include "base/time.h"

namespace dlobd::transport::fabric {

class Escape {
 public:
  // What run() returns of a call that did not end.
  static constexpr ssize_t kNever = std::numeric_limits<ssize_t>::min();

  explicit Escape(base::Duration limit) : limit_(limit) {}
  ~Escape();
  Escape(const Escape&) = delete;
  Escape& operator=(const Escape&) = delete;

  // Calls of this thread are watched from now on.
  void watch();

  // A call that returns an integer. It must own nothing that a jump past it would leave behind.
  template <class Call>
  ssize_t run(const Call& call) {
    if (!watcher_.joinable()) return call();
    return guarded([](const void* of) { return ssize_t{(*static_cast<const Call*>(of))()}; },
                   &call);
  }

 private:
  ssize_t guarded(ssize_t (*call)(const void*), const void* of);
  void look(pthread_t whom, clockid_t clock);
  static void jump(int);

  const base::Duration limit_;
  std::jmp_buf* back_ = nullptr;            // of the call that is under way
  std::atomic<std::uint64_t> calls_{0};     // begun and ended: odd within one
  std::atomic<std::uint64_t> given_up_{0};  // the call that has to be left; even: none
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ending_ = false;
  std::thread watcher_;
};

}  // namespace dlobd::transport::fabric
