// Runs on disk: one folder a run, <out>/<run id>/ with run.json, steps.csv and evaluations.csv.
//
// A folder appears whole or not at all: it is written beside its place under a hidden name, synced,
// and renamed without replacing anything. An id is never used twice:
// "20260301T120000Z-caffeonspark-3f9a2c". Errors are one clear line each: io_error when the system
// refuses or the disk is full (the hidden folder is removed then), corrupt_data and unavailable
// when reading. Blocks; any thread or process.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "metrics/run_record.h"

namespace dlobd::metrics {

// Can a record be written below `out`? Writes a small file in it (in the nearest folder above that
// is there) and removes it; leaves nothing behind. To be asked before ranks start.
base::Result<void> check_writable(const std::filesystem::path& out);

// A new id, for a run that started then.
std::string new_run_id(std::string_view started_at, std::string_view stack);

// Returns the folder of the record.
base::Result<std::filesystem::path> write_run(const std::filesystem::path& out,
                                              const RunRecord& record);
// The same with names of the caller's; asked again, a few times, while a name is taken.
base::Result<std::filesystem::path> write_run(const std::filesystem::path& out,
                                              const RunRecord& record,
                                              const std::function<std::string()>& next_id);

// not_found where there is no run, corrupt_data for files that are no record or cut off,
// unavailable for a record of another major version.
base::Result<RunRecord> read_run(const std::filesystem::path& folder);

}  // namespace dlobd::metrics
