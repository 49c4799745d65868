// N ranks as forked processes of this one, for a benchmark that needs no program of its own: each
// runs the same function, and they exchange blobs through this process. They die with it.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "bench_process.h"

namespace dlobd::app {

using Blob = std::vector<std::byte>;

// A rank's place among the others; in the forked process.
class Seat {
 public:
  Seat(int rank, int world_size, int channel)
      : rank_(rank), world_size_(world_size), channel_(channel) {}
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int world_size() const { return world_size_; }
  // Every rank's blob, by rank. Blocks until all have called it: a barrier, too.
  base::Result<std::vector<Blob>> all_gather(const Blob& own);

 private:
  int rank_;
  int world_size_;
  int channel_;
};

using RankBody = std::function<base::Result<Blob>(Seat& seat)>;

// Gives what the bodies returned, by rank. The first rank that fails ends all: its error. Also
// cancelled, deadline_exceeded. Call while this process has one thread.
base::Result<std::vector<Blob>> run_forked(int ranks, const RankBody& body,
                                           const Interrupt& interrupt, base::Duration limit);

// Doubles as they lie in memory, between processes of one host.
Blob to_blob(const std::vector<double>& values);
std::vector<double> from_blob(const Blob& blob);

}  // namespace dlobd::app
