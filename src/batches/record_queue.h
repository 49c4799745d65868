// A queue of byte strings between one producer and one consumer that reach it through sockets only,
// as if each lived in a process of its own. Every call is a round trip: the caller writes and waits
// for the answer. A thread inside serves both ends and holds at most `depth` items.
//
//   producer   put(item)      answered when there is room
//   consumer   get()          answered with the oldest item, when there is one
//              task_done()    answered at once: the item has been dealt with
//
// Threads: one thread for each end. Errors: io_error when there are no sockets, and for an end
// whose other side is gone. Closing the consumer's end ends the queue and the producer's next call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"

namespace dlobd::batches {

class RecordQueue {
 public:
  using Item = std::vector<std::byte>;

  static base::Result<std::unique_ptr<RecordQueue>> open(std::size_t depth);
  ~RecordQueue();  // closes both ends
  RecordQueue(const RecordQueue&) = delete;
  RecordQueue& operator=(const RecordQueue&) = delete;

  base::Result<void> put(std::span<const std::byte> item);
  base::Result<Item> get();
  base::Result<void> task_done();

  // The consumer wants no more. The producer may still be in a call.
  void close_consumer();

 private:
  struct Sockets;
  RecordQueue(std::size_t depth, Sockets sockets);

  base::Descriptor producer_;
  base::Descriptor consumer_;
  std::thread thread_;  // last: it starts when all the rest is there
};

}  // namespace dlobd::batches
