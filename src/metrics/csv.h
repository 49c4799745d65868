// steps.csv and evaluations.csv: a header, then a row a line, no quotes, readable by pandas in one
// call. Floating-point numbers have the shortest form that reads back as the same number; "nan",
// "inf". Columns are found by name: others, and another order, are no matter. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "metrics/rows.h"

namespace dlobd::metrics {

// In the order of steps, ranks within. The epoch of a row is not part of the file.
std::string steps_csv(std::vector<StepRow> rows);
std::string evaluations_csv(const std::vector<EvaluationRow>& rows);

// corrupt_data names line and column.
base::Result<std::vector<StepRow>> parse_steps_csv(std::string_view text);
base::Result<std::vector<EvaluationRow>> parse_evaluations_csv(std::string_view text);

}  // namespace dlobd::metrics
