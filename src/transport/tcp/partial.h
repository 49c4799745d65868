// A message of which some frames are in, or which came before an earlier one. Frames of one message
// must say the same of it and bring each of its bytes once.
//
// Threads: belongs to the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "transport/tcp/wire.h"

namespace dlobd::transport::tcp {

class Partial {
 public:
  // `frame` has passed check_frame(); a message has at most so many. corrupt_data when it is none
  // of this message.
  base::Result<void> add(const FrameHeader& frame, std::size_t most_frames);
  [[nodiscard]] bool is_whole() const { return !parts_.empty() && bytes_ == message_.total_bytes; }
  // Of its first frame.
  [[nodiscard]] const FrameHeader& header() const { return message_; }

  std::vector<std::byte> payload;  // of a two-sided message

 private:
  struct Part {
    std::uint64_t begin;
    std::uint64_t end;
  };
  [[nodiscard]] bool is_of(const FrameHeader& frame) const;

  FrameHeader message_;
  std::uint64_t bytes_ = 0;  // so far
  std::vector<Part> parts_;
};

}  // namespace dlobd::transport::tcp
