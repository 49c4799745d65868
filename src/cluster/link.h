// A control link: whole frames, in order, both ways. Implementations: TCP, and a pair in one
// process for simulation and for rank 0's own link. Belongs to the loop's thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "base/waiters.h"

namespace dlobd::cluster {

using Frame = std::vector<std::byte>;
inline constexpr std::size_t kMaxFrameBytes = 64 << 20;

class Link {
 public:
  virtual ~Link() = default;
  // Queued and sent in order; never blocks. Nothing happens on a closed link.
  virtual void send(Frame frame) = 0;
  // The next frame. io_error when the other side closed, refused for a frame that is no frame.
  virtual base::Task<base::Result<Frame>> receive() = 0;
  // Sends what is queued, then closes.
  virtual void close() = 0;
  // The other side has proved who it is: frames may be as large as kMaxFrameBytes from now on.
  virtual void lift_limit() {}
  // "127.0.0.1:40312", "in process"
  [[nodiscard]] virtual std::string peer() const = 0;
};

}  // namespace dlobd::cluster
