// Runs on disk: one folder a run, <out>/<run id>/ with run.json, steps.csv and evaluations.csv.
//
// A folder appears whole or not at all: it is written beside its place under a hidden name, synced,
// and renamed without replacing anything. An id is never used twice:
// "20260301T120000Z-caffeonspark-3f9a2c". Errors are one clear line each: io_error when the system
// refuses or the disk is full (the hidden folder is removed then), corrupt_data and unavailable
// when reading. Blocks; any thread or process.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "metrics/run_record.h"

namespace dlobd::metrics {

// Can a record be written below `out`? Makes the folder, writes and removes a small file. To be
// asked before ranks start.
base::Result<void> check_writable(const std::filesystem::path& out);

// The folder of the record.
base::Result<std::filesystem::path> write_run(const std::filesystem::path& out,
                                              const RunRecord& record);

base::Result<RunRecord> read_run(const std::filesystem::path& folder);

}  // namespace dlobd::metrics
