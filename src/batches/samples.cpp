#include "batches/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace dlobd::batches {
namespace {

constexpr std::size_t kRecordsAtOnce = 4096;

}  // namespace

base::Result<Samples> load(records::Reader& reader, Shard shard) {
  if (shard.first > reader.count() || shard.count > reader.count() - shard.first)
    return base::fail(base::ErrorKind::invalid_argument,
                      fmt::format("shard reaches beyond its records: records {} to {} of {}",
                                  shard.first, shard.first + shard.count, reader.count()));
  Samples samples;
  samples.shape = reader.shape();
  // The reader has checked its count against the file.
  samples.pixels.reserve(shard.count * samples.shape.bytes());
  samples.labels.reserve(shard.count);
  DLOBD_TRY_VOID(sought, reader.seek(shard.first));
  while (samples.count() < shard.count) {
    const std::size_t wanted =
        std::min<std::uint64_t>(kRecordsAtOnce, shard.count - samples.count());
    DLOBD_TRY(span, reader.next(wanted));
    if (span.count() == 0)
      return base::fail(base::ErrorKind::corrupt_data,
                        fmt::format("records end before their count: {} of {}",
                                    shard.first + samples.count(), reader.count()));
    const auto* pixels = reinterpret_cast<const std::uint8_t*>(span.values.data());
    samples.pixels.insert(samples.pixels.end(), pixels, pixels + span.values.size());
    samples.labels.insert(samples.labels.end(), span.labels.begin(), span.labels.end());
  }
  return samples;
}

Batch gather(const Samples& samples, std::span<const std::uint32_t> numbers) {
  const std::size_t bytes = samples.shape.bytes();
  Batch batch;
  batch.shape = samples.shape;
  batch.pixels.resize(numbers.size() * bytes);
  batch.labels.reserve(numbers.size());
  std::uint8_t* to = batch.pixels.data();
  for (const std::uint32_t number : numbers) {
    std::memcpy(to, samples.pixels.data() + number * bytes, bytes);
    to += bytes;
    batch.labels.push_back(samples.labels[number]);
  }
  return batch;
}

}  // namespace dlobd::batches
