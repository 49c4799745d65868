#include "transport/tcp/partial.h"

#include <fmt/format.h>

#include <algorithm>

namespace dlobd::transport::tcp {

base::Result<void> Partial::add(const FrameHeader& frame, std::size_t most_frames) {
  const auto corrupt = [&frame](std::string_view what) {
    return base::fail(base::ErrorKind::corrupt_data,
                      fmt::format("{}: number {}, {} bytes at {} of {}", what, frame.sequence,
                                  frame.bytes, frame.offset_bytes, frame.total_bytes));
  };
  if (is_whole()) return corrupt("a frame of a message that was whole before it");
  if (frame.bytes == 0 && frame.total_bytes > 0) return corrupt("a part of a message is empty");
  if (parts_.size() >= most_frames) return corrupt("a message is in too many parts");
  if (!parts_.empty() && !is_of(frame)) return corrupt("parts of a message differ about it");
  const Part added{frame.offset_bytes, frame.offset_bytes + frame.bytes};
  Part reach = added;
  for (const Part& part : parts_) {
    if (added.begin < part.end && part.begin < added.end) {
      return corrupt("parts of a message overlap");
    }
    reach = {std::min(reach.begin, part.begin), std::max(reach.end, part.end)};
  }
  if (reach.end - reach.begin > frame.total_bytes) {
    return corrupt("parts of a message lie too far apart");
  }
  if (parts_.empty()) message_ = frame;
  parts_.push_back(added);
  bytes_ += frame.bytes;
  return {};
}

// Where it lies and how much of it there is differs from part to part.
bool Partial::is_of(const FrameHeader& frame) const {
  FrameHeader expected = message_;
  expected.offset_bytes = frame.offset_bytes;
  expected.bytes = frame.bytes;
  return frame == expected;
}

}  // namespace dlobd::transport::tcp
