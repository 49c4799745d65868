// The all-reduce as this program does it: exchange::Collective over an endpoint between processes.
#pragma once

#include <cstdint>
#include <vector>

#include "bench_forked.h"
#include "bench_network.h"

namespace dlobd::app {

// The body of one rank; the form of what it gives is that of raw_exchange().
base::Result<Blob> collective(Seat& seat, const std::vector<std::uint64_t>& sizes,
                              const BenchNetwork& network);

}  // namespace dlobd::app
