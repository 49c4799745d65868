#include "batches/record_feed.h"

#include <cstring>
#include <string>
#include <utility>

#include "base/binary.h"
#include "base/check.h"

namespace dlobd::batches {
namespace {

// TensorFlowOnSpark's queue knows no bound; this one saves memory, and never runs dry earlier.
constexpr std::size_t kQueueDepth = 1024;

enum class Mark : std::uint8_t { record, end, error };

RecordQueue::Item encode_record(const Batch& batch, std::size_t index) {
  base::BinaryWriter writer;
  writer.integer(static_cast<std::uint8_t>(Mark::record));
  writer.integer(batch.labels[index]);
  for (const std::int64_t size : {batch.shape.channels, batch.shape.height, batch.shape.width}) {
    writer.integer(size);
  }
  const std::size_t bytes = batch.shape.bytes();
  writer.bytes<std::uint32_t>(std::as_bytes(std::span(batch.pixels).subspan(index * bytes, bytes)));
  return writer.take();
}

RecordQueue::Item encode_end() {
  base::BinaryWriter writer;
  writer.integer(static_cast<std::uint8_t>(Mark::end));
  return writer.take();
}

RecordQueue::Item encode_error(const base::Error& error) {
  base::BinaryWriter writer;
  writer.integer(static_cast<std::uint8_t>(Mark::error));
  writer.integer(static_cast<std::uint8_t>(error.kind));
  writer.text<std::uint32_t>(error.message);
  return writer.take();
}

void append_record(base::BinaryReader& reader, Batch& batch) {
  batch.labels.push_back(reader.integer<std::int64_t>());
  for (std::int64_t* size : {&batch.shape.channels, &batch.shape.height, &batch.shape.width}) {
    *size = reader.integer<std::int64_t>();
  }
  const auto pixels = reader.bytes<std::uint32_t>();
  const std::size_t before = batch.pixels.size();
  batch.pixels.resize(before + pixels.size());
  std::memcpy(batch.pixels.data() + before, pixels.data(), pixels.size());
}

}  // namespace

RecordFeedSource::RecordFeedSource(std::unique_ptr<Source> inner, std::uint64_t batch_size)
    : inner_(std::move(inner)), batch_size_(batch_size) {
  CHECK(batch_size > 0, "batches of no records");
}

RecordFeedSource::~RecordFeedSource() {
  stop();
}

void RecordFeedSource::stop() {
  if (!feeder_.joinable()) return;
  queue_->close_consumer();
  feeder_.join();
  queue_.reset();
}

base::Result<std::optional<std::uint64_t>> RecordFeedSource::start_epoch(
    std::uint64_t epoch, std::uint64_t first_batch) {
  stop();
  last_.reset();
  round_trips_ = 0;
  auto batches = inner_->start_epoch(epoch, first_batch);
  if (batches) {
    auto queue = RecordQueue::open(kQueueDepth);
    if (!queue) batches = base::fail(queue.error());
    if (queue) queue_ = std::move(*queue);
  }
  if (!batches) {
    last_ = base::fail(batches.error());
    return batches;
  }
  feeder_ = std::thread([this] { feed(); });
  return batches;
}

void RecordFeedSource::feed() {
  for (;;) {
    const auto batch = inner_->next();
    if (!batch || !*batch) {
      (void)queue_->put(batch ? encode_end() : encode_error(batch.error()));
      return;
    }
    for (std::size_t i = 0; i < (*batch)->size(); ++i) {
      if (!queue_->put(encode_record(**batch, i))) return;  // nobody wants it any more
    }
  }
}

base::Result<RecordQueue::Item> RecordFeedSource::take() {
  DLOBD_TRY(item, queue_->get());
  DLOBD_TRY_VOID(done, queue_->task_done());
  round_trips_ += 2;
  return std::move(item);
}

base::Result<std::optional<Batch>> RecordFeedSource::next() {
  CHECK(queue_ || last_, "no epoch has been started");
  Batch batch;
  while (!last_ && batch.size() < batch_size_) {
    auto item = take();
    if (!item) {
      last_ = base::fail(item.error());
      break;
    }
    base::BinaryReader reader(*item);
    switch (static_cast<Mark>(reader.integer<std::uint8_t>())) {
      case Mark::record: append_record(reader, batch); break;
      case Mark::end: last_ = std::optional<Batch>(); break;
      case Mark::error: {
        const auto kind = static_cast<base::ErrorKind>(reader.integer<std::uint8_t>());
        last_ = base::fail(kind, reader.text<std::uint32_t>());
        break;
      }
    }
  }
  if (batch.size() > 0) return batch;
  return *last_;
}

}  // namespace dlobd::batches
