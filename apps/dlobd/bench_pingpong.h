// What is measured between two ranks, whichever way bytes go: half of a round trip, and a stream of
// messages of which the other rank acknowledges each window. Rank 0 holds the clock. The plan of a
// size is the same for endpoints and for raw bytes, so that they can be compared.
//
//   latency    0 sends, 1 sends back as soon as it has it: half of that, each time
//   bandwidth  0 sends `window` messages without waiting, 1 says once that it has them all
//
// Before a size is measured, its bytes are checked there and back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench_forked.h"
#include "bench_network.h"
#include "bench_rounds.h"

namespace dlobd::app {

// write: one-sided, into the peer's registered memory, with a notification. message: two-sided, the
// payload comes with it.
enum class Way { write, message };
inline constexpr std::array<Way, 2> kWays{Way::write, Way::message};
const char* name(Way way);
// Two-sided messages are small: see transport/message.h.
bool goes(Way way, std::uint64_t bytes);

struct PingPongPlan {
  std::size_t round_trips = 0;  // at least 100, which a p99 needs
  std::size_t window = 0;       // messages
  std::size_t windows = 0;
};
// `most`: round trips, and windows, at most.
PingPongPlan plan_of(std::uint64_t bytes,
                     std::size_t most = std::numeric_limits<std::size_t>::max());
// Before those that count.
inline std::size_t warmups(std::size_t iterations) {
  return iterations / 10 + 1;
}

// One rank's part of what was measured one way at one size.
struct PingPong {
  std::vector<double> half_trips_us;  // of rank 0
  std::vector<double> windows_us;     // of rank 0
  std::uint64_t sent_bytes = 0;
  Copies copies;
};
using PingPongs = std::map<Way, std::map<std::uint64_t, PingPong>>;
Blob to_blob(const PingPongs& measured);

// Figures of an arm from its ranks' blobs: figure_name(way, what, bytes) for
//   "us", "p99_us"        half of a round trip
//   "gigabytes_per_second"
//   "copies"              bytes that this program copied, both ranks, for each byte that was sent
// and "injected_bytes", "temporary_registrations" of all together; the samples in the record.
base::Result<Run> run_of(const std::vector<Blob>& blobs);
std::string figure_name(Way way, const char* what, std::uint64_t bytes);

// Bytes that differ from place to place; `seed`: the rank that sends them.
void fill_pattern(std::span<std::byte> bytes, int seed);
base::Result<void> check_pattern(std::span<const std::byte> bytes, int seed);

// The body of one of two ranks over an endpoint.
base::Result<Blob> ping_pong(Seat& seat, const BenchNetwork& network,
                             const std::vector<std::uint64_t>& sizes,
                             std::size_t most = std::numeric_limits<std::size_t>::max());

}  // namespace dlobd::app
