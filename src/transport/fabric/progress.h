// Drives a provider from the loop: polls while there is something to find, then for the idle time
// (longer while something is expected) in short bursts that let others run, then sleeps, on the
// provider's descriptor or by a timer that grows to the longest nap.
//
// What polls that found nothing cost is told apart from work: their number, times the CPU time of
// one, measured on a sample of them. stop() ends it for good.
//
// Threads: belongs to the loop's thread. Shared by its owner and what it has pending on the loop.
#pragma once

#include <asio/posix/basic_stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/loop.h"

namespace dlobd::transport::fabric {

class Progress : public std::enable_shared_from_this<Progress> {
 public:
  struct Calls {
    std::function<std::size_t()> poll;         // returns how much it found
    std::function<bool()> may_wait;            // the descriptor will tell of the next
    std::function<bool()> expects;             // something posted is not through: it will come soon
    std::function<void(base::Time now)> look;  // at the end of each turn
  };
  // descriptor: -1 for none; not closed here.
  Progress(base::Loop& loop, base::Duration spin, base::Duration nap, int descriptor);

  void start(Calls calls);
  // Something was posted, at this time: polls again.
  void kick(base::Time now);
  void stop();
  [[nodiscard]] bool running() const { return running_; }
  // When the loop last came by here; what polls by itself meanwhile says how many found nothing.
  [[nodiscard]] base::Time turned() const { return turned_; }
  void count_empty(std::uint64_t polls) { polls_ += polls; }
  // Leaves the queue alone for a moment: who writes to it needs it, too.
  static void pause();

  [[nodiscard]] base::Duration polling_cpu() const;
  [[nodiscard]] std::uint64_t polls() const { return polls_; }
  [[nodiscard]] std::uint64_t sleeps() const { return sleeps_; }

 private:
  [[nodiscard]] base::Duration patience(base::Time now) const;
  void schedule();
  void turn();
  // Polls until something is found or the burst is over; `now` becomes when it ended.
  bool burst(bool once, base::Time& now);
  void sleep();
  void wake(std::uint64_t sleep);

  base::Loop& loop_;
  base::Duration spin_;
  base::Duration nap_;
  std::optional<asio::posix::basic_stream_descriptor<base::Executor>> descriptor_;
  Calls calls_;
  bool running_ = false;
  bool scheduled_ = false;
  bool sleeping_ = false;
  base::Time turned_{0};
  base::Time busy_{0};  // when something was last found or posted
  base::Duration next_nap_{0};
  base::TimerId timer_;

  std::uint64_t polls_ = 0;
  std::uint64_t bursts_ = 0;
  std::uint64_t sleeps_ = 0;
  std::uint64_t sampled_polls_ = 0;
  base::Duration sampled_cpu_{0};
};

}  // namespace dlobd::transport::fabric
