// The rows of a RunRecord: what a rank measures and ships. Plain values.
//
// Times count from the start of the training clock of the rank they come from (the rank subtracts
// it), in nanoseconds. That clock starts once the job is set up, before the first touch of the
// data, and never pauses.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "metrics/phases.h"
#include "metrics/port_bytes.h"

namespace dlobd::metrics {

// The names of the phases in records, by Phase. exchange_exposed: what of it the step had to wait
// for.
inline constexpr std::array<std::string_view, kPhases> kPhaseNames = {
    "feed", "compute", "exchange_exposed", "wait", "schedule", "update"};

// One step of one rank. totals.start is training time, not loop time.
struct StepRow {
  int rank = 0;
  std::uint64_t step = 0;   // from 0
  std::uint64_t epoch = 0;  // from 0
  Phases::Totals totals;
  std::uint64_t samples = 0;    // of this rank in this step
  double loss = 0;              // mean over this rank's batch
  std::uint64_t staleness = 0;  // updates by others since the weights were read; 0: synchronous
};

// One evaluation on the test set, after `step` steps, `epoch` epochs done.
struct EvaluationRow {
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::int64_t time_ns = 0;   // when it ended
  std::uint64_t samples = 0;  // training samples seen so far, over all ranks
  double loss = 0;            // mean over the test set
  double accuracy = 0;        // 0 to 1
};

// A stretch between steps that the training rate leaves out.
enum class ApartKind : std::uint8_t { evaluation, snapshot };
struct ApartRow {
  int rank = 0;
  ApartKind kind = ApartKind::evaluation;
  base::Time start{0};
  base::Duration duration{0};
};

// Messages and bytes of one class of traffic.
struct TrafficCount {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const TrafficCount&, const TrafficCount&) = default;
};

// What a rank says of itself at its end. data: the payload of the exchange's steps; control:
// requests, look-ups, launches, tokens; apart: what evaluation and snapshots move over the
// transport. The control link of the cluster is counted by itself: signs of life, and the
// all-gathers and barriers, whose bytes are those of the blobs.
struct RankSummary {
  int rank = 0;
  std::string role = "worker";  // worker, ps, driver
  std::string host;
  std::int64_t pid = 0;
  TrafficCount data_sent, data_received;
  TrafficCount control_sent, control_received;
  TrafficCount apart_sent, apart_received;
  std::uint64_t heartbeats_sent = 0;
  std::uint64_t gathers_sent = 0;
  std::uint64_t gather_bytes_sent = 0;
  std::optional<std::uint64_t> credits_sent;  // by a transport whose flow control has credits
  std::optional<PortBytes>
      port;  // what its port carried meanwhile, for whomever; by the port itself
  std::int64_t clock_error_ns = -1;  // of the alignment with rank 0; -1: clocks are not aligned
  std::uint64_t peak_rss_bytes = 0;
  std::uint64_t cpu_ns = 0;  // on CPUs, all threads, while the training clock ran
  std::uint64_t samples_seen = 0;
  std::uint64_t samples_padded = 0;  // seen twice, to fill the last batch
  std::uint64_t samples_dropped =
      0;  // of the shard, not seen in an epoch because they fill no batch
  // false: the rank was lost before it could say; its counts are not known (null in the record).
  bool complete = true;
};

}  // namespace dlobd::metrics
