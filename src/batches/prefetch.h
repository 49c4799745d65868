// A source read ahead by a thread of its own, so that the step finds its batch ready. A bounded
// queue holds at most `depth` batches; ends and errors come through it in order, after the batches
// before them, and are repeated until the next start_epoch(). start_epoch() throws away what was
// read ahead. Threads: the caller's and one inside, which never touch the inner source at the same
// time. The destructor stops and joins the thread; it waits for at most one batch.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "batches/source.h"

namespace dlobd::batches {

class PrefetchSource final : public Source {
 public:
  // depth > 0; 2 hides one late batch, more hide a burst.
  explicit PrefetchSource(std::unique_ptr<Source> inner, std::size_t depth = 2);
  ~PrefetchSource() override;
  PrefetchSource(const PrefetchSource&) = delete;
  PrefetchSource& operator=(const PrefetchSource&) = delete;

  base::Result<std::optional<std::uint64_t>> start_epoch(std::uint64_t epoch,
                                                         std::uint64_t first_batch) override;
  base::Result<std::optional<Batch>> next() override;

 private:
  using Item = base::Result<std::optional<Batch>>;

  void read_ahead();

  std::unique_ptr<Source> inner_;
  const std::size_t depth_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;  // all below: under mutex_
  bool reading_ = false;    // the thread is to read, or is reading, on
  bool in_inner_ = false;   // the thread is inside inner_->next()
  bool stopping_ = false;
  bool started_ = false;

  std::thread thread_;  // last: it starts when all the rest is there
};

}  // namespace dlobd::batches
