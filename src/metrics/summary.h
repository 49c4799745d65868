// The figures of RunRecord.summary from the raw rows; docs/metrics.md defines each. Pure; any
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "metrics/rows.h"
#include "metrics/run_record.h"

namespace dlobd::metrics {

inline constexpr std::uint64_t kWarmupSteps = 5;

struct SummaryInput {
  const std::vector<StepRow>& steps;
  const std::vector<ApartRow>& aparts;
  const std::vector<EvaluationRow>& evaluations;
  // Rank -> when its training clock started; empty in virtual time.
  const std::map<int, std::int64_t>& training_started_unix_ns;
  std::int64_t started_unix_ns = 0;  // of the launcher
  // The loss that is shown is rank 0's own (the defect loss_local), not the mean over ranks.
  bool loss_is_local = false;
};

RunSummary summarize(const SummaryInput& input);

}  // namespace dlobd::metrics
