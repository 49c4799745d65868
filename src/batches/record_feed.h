// A source whose records come one by one, as TensorFlowOnSpark feeds its workers (InputMode.SPARK):
// a feeder takes the inner source's batches apart and puts each record, with its label and shape,
// into a queue that stands for the executor's queue manager; next() gets them back and batches them
// again, bit for bit. A record costs three round trips between threads, through sockets: put, get,
// task_done. What it stands for crosses processes and pickles each record besides.
//
// Ends and errors come through the queue in order, after the records before them, and are repeated
// until the next start_epoch(), which throws away what was on its way. Threads: the caller's, the
// feeder's and the queue's. The inner source is touched by one at a time. The destructor waits for
// at most one of its batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>

#include "batches/record_queue.h"
#include "batches/source.h"

namespace dlobd::batches {

class RecordFeedSource final : public Source {
 public:
  // `batch_size`: of each of the inner source's batches but the last; > 0.
  RecordFeedSource(std::unique_ptr<Source> inner, std::uint64_t batch_size);
  ~RecordFeedSource() override;
  RecordFeedSource(const RecordFeedSource&) = delete;
  RecordFeedSource& operator=(const RecordFeedSource&) = delete;

  base::Result<std::optional<std::uint64_t>> start_epoch(std::uint64_t epoch,
                                                         std::uint64_t first_batch) override;
  base::Result<std::optional<Batch>> next() override;

  // Round trips that next() has made since the epoch began: two for each record.
  [[nodiscard]] std::uint64_t round_trips() const { return round_trips_; }

 private:
  void feed();
  void stop();
  base::Result<RecordQueue::Item> take();

  std::unique_ptr<Source> inner_;
  std::uint64_t batch_size_;
  std::uint64_t round_trips_ = 0;
  std::unique_ptr<RecordQueue> queue_;  // of the epoch
  std::thread feeder_;                  // likewise
  // Once it has come: the end of the epoch, or an error.
  std::optional<base::Result<std::optional<Batch>>> last_;
};

}  // namespace dlobd::batches
