// The all-reduce as this program does it: exchange::Collective over transport/tcp on loopback.
#pragma once

#include <cstdint>
#include <vector>

#include "bench_forked.h"

namespace dlobd::app {

// The body of one rank; the form of what it gives is that of raw_exchange().
base::Result<Blob> collective(Seat& seat, const std::vector<std::uint64_t>& sizes,
                              int connections_per_peer);

}  // namespace dlobd::app
