// What a message costs on a simulated link. Everything is an integer number of nanoseconds.
//
//   sender's processor   send_per_message + pieces * send_per_piece     one message at a time
//   sender's link        bytes / bandwidth                              one message at a time
//   wire                 latency + a seeded delay in [0, jitter]        any number at once
//   receiver's link      bytes / bandwidth                              one at a time: the incast
//   receiver's processor receive_per_message + pieces * receive_per_piece
//                                                                       one message at a time
//
// The stages of one message overlap as they do on a stream: a byte passes on as soon as it is
// there. A link works in both directions at once. Between two ranks nothing overtakes.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace dlobd::transport::simulated {

struct LinkModel {
  base::Duration latency{0};
  std::uint64_t bandwidth_bytes_per_second = 0;  // of each rank's link; 0: unlimited
  base::Duration send_per_message{0};
  base::Duration receive_per_message{0};
  base::Duration jitter{0};  // the largest extra delay of a message

  // A transport that writes and reads in small pieces pays for each. 0: a message is one piece.
  std::uint64_t piece_bytes = 0;
  base::Duration send_per_piece{0};
  base::Duration receive_per_piece{0};

  // How long after the end of a connection its other side hears of it, beyond the latency.
  base::Duration detection_delay{0};
  // What a peer that does not read still takes in (the kernels' buffers), and how long a sender
  // that is stuck behind it waits before it calls the link broken.
  std::uint64_t window_bytes = 256 * 1024;
  base::Duration peer_timeout = std::chrono::seconds(10);

  [[nodiscard]] base::Duration wire_time(std::uint64_t bytes) const {
    if (bandwidth_bytes_per_second == 0) return base::Duration::zero();
    const auto scaled = static_cast<unsigned __int128>(bytes) * 1'000'000'000U;
    const auto rounded_up = (scaled + bandwidth_bytes_per_second - 1) / bandwidth_bytes_per_second;
    return base::Duration(static_cast<std::int64_t>(rounded_up));
  }

  [[nodiscard]] std::int64_t pieces(std::uint64_t bytes) const {
    if (piece_bytes == 0 || bytes == 0) return 1;
    return static_cast<std::int64_t>((bytes + piece_bytes - 1) / piece_bytes);
  }
};

}  // namespace dlobd::transport::simulated
