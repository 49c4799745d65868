// Any bytes as a pair of IDX files: opening gives an error of one line, or a reader that reads to
// its end and holds no more than the files do. Input: a byte of flags (1: images are gzip, 2:
// labels are), the offset and length of the split (a byte each), the length of the images (2 bytes,
// little-endian), then the images and the labels.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/check.h"
#include "records/idx.h"
#include "storage/memory.h"

namespace {

constexpr std::size_t kPrefixBytes = 5;
constexpr int kClasses = 10;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < kPrefixBytes) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(kPrefixBytes);
  const std::size_t stated = data[3] | std::size_t{data[4]} << 8;
  const std::size_t images = stated < bytes.size() ? stated : bytes.size();

  dlobd::storage::MemoryStore store;
  store.put((data[0] & 1) != 0 ? "images.gz" : "images", bytes.first(images));
  store.put((data[0] & 2) != 0 ? "labels.gz" : "labels", bytes.subspan(images));
  const dlobd::records::Split split{"images", data[1], data[2]};
  auto reader = dlobd::records::open_idx(store, split, "labels", kClasses);
  if (!reader) {
    CHECK(reader.error().message.find('\n') == std::string::npos, "an error of more than a line");
    return 0;
  }
  std::uint64_t records = 0;
  for (;;) {
    const auto span = (*reader)->next(7);
    CHECK(span.has_value(), "what was checked cannot be read: {}", span.error().message);
    if (span->count() == 0) break;
    CHECK(span->values.size() == span->count() * (*reader)->shape().bytes(), "{} bytes",
          span->values.size());
    for (const std::uint8_t label : span->labels) CHECK(label < kClasses, "label {}", label);
    records += span->count();
  }
  CHECK(records == (*reader)->count(), "{} records of {}", records, (*reader)->count());
  return 0;
}
