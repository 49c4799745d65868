// A run that has ended and whose record is written, or could not be: what is left is to say so.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "metrics/run_record.h"
#include "training/config.h"
#include "training/step_loop.h"

namespace dlobd::app {

struct RunEnding {
  base::Result<training::End> end;
  metrics::RunRecord record;
  base::Result<std::filesystem::path> folder;  // of the record
};

metrics::RunStatus status_of(const base::Result<training::End>& end);

// Prints a few closing lines, or the record as JSON, and complaints; gives the exit status: 0, 1 or
// 130. Blocks while nobody reads.
int show_ending(const RunEnding& ending, const training::Config& config, bool json);

}  // namespace dlobd::app
