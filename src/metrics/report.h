// What a rank ships to the rank that writes the record: small self-contained blobs, sent while the
// run goes on, so that the rows of a rank that is killed survive it.
//
//   rank_started                 once, when the training clock starts
//   steps, apart, evaluation     as they happen
//   warning                      as it happens
//   rank_summary                 at the end
//   rank_failed                  to its launcher, by a rank that does not end well
//
// decode() trusts nothing: bytes that are no report are a corrupt_data error. Stateless: any
// thread. Reporter buffers steps and belongs to one thread.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "metrics/environment.h"
#include "metrics/rows.h"

namespace dlobd::metrics {

struct RankStarted {
  int rank = 0;
  std::string role = "worker";
  std::int64_t pid = 0;
  // The start of the rank's training clock by the wall clock, nanoseconds since 1970.
  std::int64_t training_started_unix_ns = 0;
  Environment environment;
};

struct Warning {
  std::string message;
};

// A rank's last word where it did not end well.
struct RankFailed {
  base::Error error;
};

using Report = std::variant<RankStarted, std::vector<StepRow>, ApartRow, EvaluationRow, RankSummary,
                            Warning, RankFailed>;
using Blob = std::vector<std::byte>;

Blob encode(const Report& report);
base::Result<Report> decode(std::span<const std::byte> blob);

// Gathers the steps of a rank and ships them together: as soon as they span 250 ms of training, or
// are 256. Everything else goes at once, after the steps before it.
class Reporter {
 public:
  using Ship = std::function<void(Blob)>;
  explicit Reporter(Ship ship) : ship_(std::move(ship)) {}

  void add(StepRow row);
  // Steps first, so that order is kept.
  void add(const Report& report);
  void flush();

 private:
  Ship ship_;
  std::vector<StepRow> steps_;
};

}  // namespace dlobd::metrics
