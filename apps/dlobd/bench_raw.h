// What an all-reduce between two ranks could take at best: plain sockets that send and receive at
// once, and the addition, with nothing around them. One setting is not a bound: which one is
// fastest depends on the size, so several are measured and the best of them for each size is the
// limit.
//
//   whole   each sends all of its buffer, and adds what it receives:         B bytes each way, B
//   added halves  each sums one half and sends the sum back (a ring of two):       B bytes each
//   way, B/2 added
//
// The addition of a piece starts when the piece is there, while the rest is on its way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "bench_forked.h"

namespace dlobd::app {

struct RawSetting {
  std::string name;
  bool halves = false;
  bool spin = false;  // poll all the time, or sleep in poll(2) until something can be done
  std::size_t piece_bytes = 0;  // of one send or receive call, and of one addition; 0: no limit
};

std::vector<RawSetting> raw_settings();

// The body of one of two ranks. Gives the seconds of each iteration of each size, one after
// another: iterations_of() of each size, or `most` where that is fewer.
base::Result<Blob> raw_exchange(Seat& seat, const RawSetting& setting,
                                const std::vector<std::uint64_t>& sizes,
                                std::size_t most = std::numeric_limits<std::size_t>::max());

// Copies of the same size within one process; the same form.
base::Result<Blob> copy_memory(const std::vector<std::uint64_t>& sizes);

// Enough to move about 200 MB, at least 5, at most 2000: as the peers' programs do.
std::size_t iterations_of(std::uint64_t bytes);
// Before those that count.
inline std::size_t warmups_of(std::uint64_t bytes) {
  return iterations_of(bytes) / 10 + 1;
}

// Every element of rank r is r + 1 before, and their sum after.
void fill_for_check(std::span<float> data, int rank);
base::Result<void> check_sum(std::span<const float> data, int rank, int world_size);

}  // namespace dlobd::app
