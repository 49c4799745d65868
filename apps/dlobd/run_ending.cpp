#include "run_ending.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "complaint.h"
#include "exit_status.h"
#include "run_view.h"
#include "training/checkpoint.h"
#include "training/identity.h"

namespace dlobd::app {

namespace {

int exit_status(const base::Result<training::End>& end) {
  if (!end || *end == training::End::target_missed) return kFailed;
  return *end == training::End::interrupted ? kInterrupted : 0;
}

std::string closing_lines(const metrics::RunRecord& record, const training::Config& config) {
  const auto& summary = record.summary;
  std::string text = fmt::format("{} through {}", config.model, record.config.stack);
  if (record.config.behaviour) text += fmt::format(" ({})", *record.config.behaviour);
  // Soft-RoCE has an adapter's provider: only what was opened tells.
  const bool stand_in = record.environment.software_rdma.value_or(false);
  text += fmt::format(" on {} rank{}, {}{}: {} steps, {} samples", config.ranks,
                      config.ranks == 1 ? "" : "s", training::network_label(config),
                      stand_in ? ", software stand-in" : "", summary.steps, summary.samples_seen);
  const bool simulated = record.source == metrics::RunSource::simulated;
  if (summary.train_seconds) {
    text += simulated ? fmt::format(", {:.6f} s of virtual time", *summary.train_seconds)
                      : fmt::format(", {:.1f} s", *summary.train_seconds);
  }
  text += "\n";
  std::vector<std::string> faithful;
  for (const auto& [name, behaviour] : record.config.defects) {
    if (behaviour == "faithful") faithful.push_back(name);
  }
  if (!faithful.empty()) text += fmt::format("  defects: {}\n", fmt::join(faithful, ", "));
  if (record.config.wire_element != "float32") {
    text += fmt::format("  {} on the wire\n", record.config.wire_element);
  }
  if (const auto lacking = training::hypothetical(config)) {
    text += fmt::format("  hypothetical: {}\n", *lacking);
  }
  if (summary.test_accuracy) {
    text += fmt::format("  test accuracy {:.2f} %\n", 100 * *summary.test_accuracy);
  }
  if (summary.samples_per_second) {
    text += fmt::format("  {:.0f} samples/s{}", *summary.samples_per_second,
                        simulated ? " (simulated)" : "");
    if (summary.time_to_first_step_seconds && !simulated) {
      text += fmt::format(", first step after {:.2f} s", *summary.time_to_first_step_seconds);
    }
    text += "\n";
  }
  for (const auto& warning : record.warnings) text += "  warning: " + warning + "\n";
  return text;
}

// The one that an agreed end leaves, where it is there: a second signal leaves none.
std::optional<std::string> last_checkpoint(const metrics::RunRecord& record,
                                           const training::Config& config) {
  std::uint64_t step = 0;
  for (const auto& row : record.steps) step = std::max(step, row.step + 1);
  std::string path = training::checkpoint_path(config.checkpoints(), config, step);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  return path;
}

void show_json(const RunEnding& ending, const training::Config& config) {
  auto json = metrics::to_json(ending.record);
  json["folder"] = ending.folder->string();
  if (const auto checkpoint = last_checkpoint(ending.record, config)) {
    json["checkpoint"] = *checkpoint;
  }
  show(stdout,
       fmt::format("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace)));
}

void show_lines(const RunEnding& ending, const training::Config& config) {
  show(stdout, fmt::format("{}  record: {}\n", closing_lines(ending.record, config),
                           ending.folder->string()));
  const auto& end = ending.end;
  if (end && *end == training::End::target_missed) {
    show(stdout, fmt::format("  the target of {:.2f} % was missed\n",
                             100 * config.until_accuracy.value_or(0)));
  }
  if (end && *end == training::End::interrupted) {
    const auto checkpoint = last_checkpoint(ending.record, config);
    show(stdout,
         fmt::format("  interrupted{}\n", checkpoint ? "; go on with --resume " + *checkpoint
                                                     : ", before a checkpoint could be written"));
  }
}

}  // namespace

metrics::RunStatus status_of(const base::Result<training::End>& end) {
  if (!end) return metrics::RunStatus::failed;
  switch (*end) {
    case training::End::finished: return metrics::RunStatus::finished;
    case training::End::interrupted: return metrics::RunStatus::interrupted;
    case training::End::target_missed: return metrics::RunStatus::target_missed;
  }
  return metrics::RunStatus::failed;
}

int show_ending(const RunEnding& ending, const training::Config& config, bool json) {
  if (!ending.end) complain(ending.end.error());
  if (!ending.folder) {
    complain(ending.folder.error());
    return kFailed;
  }
  if (json) {
    show_json(ending, config);
  } else {
    show_lines(ending, config);
  }
  return exit_status(ending.end);
}

}  // namespace dlobd::app
