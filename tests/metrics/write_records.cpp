// Writes two runs below the folder it is given, for check_records.py: one with everything in it,
// and one that failed before its first step.
#include <fmt/format.h>

#include <cmath>

#include "metrics/run_folder.h"
#include "metrics/run_recorder.h"
#include "sample.h"

int main(int argc, char** argv) {
  using namespace dlobd::metrics;
  if (argc != 2) {
    fmt::print(stderr, "usage: write_records FOLDER\n");
    return 2;
  }
  RunRecord full = sample_record();
  full.steps.back().loss = std::nan("");
  const auto fixed_name = [](const char* name) { return [name] { return std::string(name); }; };
  const auto first = write_run(argv[1], full, fixed_name("full"));

  RunConfig config = sample_record().config;
  config.behaviour.reset();
  config.epochs.reset();
  RunRecorder recorder(config, {.unix_ns = 1'772'366'400'123'000'000, .world_size = 2});
  RankStarted started;
  started.environment = read_environment();
  recorder.add(0, started);
  const auto second = write_run(argv[1], recorder.record(RunStatus::failed, "peer lost: rank 1"),
                                fixed_name("failed"));
  for (const auto& written : {first, second}) {
    if (!written) {
      fmt::print(stderr, "{}\n", written.error().message);
      return 1;
    }
  }
  return 0;
}
