// How many TCP connections join each two ranks, as a user may ask for it.
#pragma once

#include <fmt/format.h>

#include <cstdint>

#include "base/result.h"

namespace dlobd::app {

inline constexpr std::int64_t kMostConnectionsPerPeer = 16;

inline base::Result<void> check_connections_per_peer(std::int64_t connections) {
  if (connections >= 1 && connections <= kMostConnectionsPerPeer) return {};
  return base::fail(base::ErrorKind::invalid_argument,
                    fmt::format("must be from 1 to {}: --connections-per-peer {}",
                                kMostConnectionsPerPeer, connections));
}

}  // namespace dlobd::app
