#include "batches/prefetch.h"

#include <utility>

#include "base/check.h"

namespace dlobd::batches {

PrefetchSource::PrefetchSource(std::unique_ptr<Source> inner, std::size_t depth)
    : inner_(std::move(inner)), depth_(depth), thread_([this] { read_ahead(); }) {
  CHECK(depth > 0, "a queue of depth 0 holds no batch");
}

PrefetchSource::~PrefetchSource() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

base::Result<std::optional<std::uint64_t>> PrefetchSource::start_epoch(std::uint64_t epoch,
                                                                       std::uint64_t first_batch) {
  std::unique_lock lock(mutex_);
  started_ = true;
  reading_ = false;
  changed_.wait(lock, [this] { return !in_inner_; });
  queue_.clear();
  // The thread stays out of the inner source while reading_ is false, and this holds the lock.
  auto batches = inner_->start_epoch(epoch, first_batch);
  if (batches) {
    reading_ = true;
  } else {
    queue_.push_back(base::fail(batches.error()));
  }
  lock.unlock();
  changed_.notify_all();
  return batches;
}

base::Result<std::optional<Batch>> PrefetchSource::next() {
  std::unique_lock lock(mutex_);
  CHECK(started_, "no epoch has been started");
  changed_.wait(lock, [this] { return !queue_.empty(); });
  Item& front = queue_.front();
  // An end and an error stay, to be given again.
  const bool last = !front.has_value() || !front->has_value();
  if (last) return front;
  Item item = std::move(front);
  queue_.pop_front();
  lock.unlock();
  changed_.notify_all();
  return item;
}

void PrefetchSource::read_ahead() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || (reading_ && queue_.size() < depth_); });
    if (stopping_) return;
    in_inner_ = true;
    lock.unlock();
    Item item = inner_->next();
    lock.lock();
    in_inner_ = false;
    if (reading_) {  // otherwise another epoch is about to start, and this batch is of the last
      reading_ = item.has_value() && item->has_value();
      queue_.push_back(std::move(item));
    }
    changed_.notify_all();
  }
}

}  // namespace dlobd::batches
