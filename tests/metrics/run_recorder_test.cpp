#include "metrics/run_recorder.h"

#include <gtest/gtest.h>

#include "metrics/run_folder.h"
#include "sample.h"

namespace dlobd::metrics {
namespace {

RunRecorder::Start two_ranks() {
  RunRecorder::Start start;
  start.unix_ns = 1'772'366'400'123'000'000;
  start.world_size = 2;
  return start;
}

RankStarted started_on(const std::string& host) {
  RankStarted started;
  started.pid = 7;
  started.training_started_unix_ns = two_ranks().unix_ns + 1'000'000'000;
  started.environment.host = host;
  started.environment.cores = 4;
  return started;
}

TEST(RunRecorder, KeepsWhatARankFailedOf) {
  RunRecorder recorder(sample_record().config, two_ranks());
  const base::Error full(base::ErrorKind::io_error, "no space", 1);
  recorder.add(1, encode(RankFailed{full}));
  EXPECT_EQ(recorder.failures(), (std::map<int, base::Error>{{1, full}}));
}

TEST(RunRecorder, MakesARecordOfWhatRanksShipped) {
  RunRecorder recorder(sample_record().config, two_ranks());
  for (int rank : {1, 0}) {
    recorder.add(rank, encode(started_on("node" + std::to_string(rank))));
    // The sender is who its link says, whatever it writes.
    recorder.add(rank, encode(std::vector<StepRow>{sample_step(5, 0), sample_step(5, 1)}));
    recorder.add(rank, encode(sample_record().ranks.front()));
  }
  recorder.add(0, encode(sample_record().evaluations.front()));
  recorder.add(1, encode(Warning{"slow"}));
  recorder.add(1, encode(Warning{"slow"}));
  const TestFolder out;
  const auto folder = recorder.write(out.path(), RunStatus::finished);
  ASSERT_TRUE(folder) << folder.error().message;
  const auto record = read_run(*folder);
  ASSERT_TRUE(record) << record.error().message;
  EXPECT_EQ(record->started_at, "2026-03-01T12:00:00.123Z");
  EXPECT_EQ(record->hosts, (std::vector<std::string>{"node0", "node1"}));
  EXPECT_EQ(record->environment.host, "node0");
  ASSERT_EQ(record->other_hosts.size(), 1U);
  EXPECT_EQ(record->other_hosts[0].host, "node1");
  EXPECT_EQ(record->other_hosts[0].cores, 4);
  ASSERT_EQ(record->ranks.size(), 2U);
  EXPECT_EQ(record->ranks[1].rank, 1);
  EXPECT_EQ(record->ranks[1].data_sent.bytes, 13'794'560U);
  EXPECT_EQ(record->summary.samples_seen, 128U);
  EXPECT_DOUBLE_EQ(*record->summary.test_accuracy, 0.971);
  EXPECT_NEAR(*record->summary.time_to_first_step_seconds, 1.0009, 1e-6);
  EXPECT_EQ(record->steps.size(), 4U);
  // The sample leaves 2.2 % of its steps in no phase.
  EXPECT_EQ(record->warnings,
            (std::vector<std::string>{"rank 1: slow",
                                      "2.2 % of the steps' time is in no phase (unattributed)"}));
}

TEST(RunRecorder, AFailedRunKeepsWhatCameIn) {
  RunRecorder recorder(sample_record().config, two_ranks());
  recorder.add(0, started_on("node0"));
  recorder.add(1, started_on("node0"));
  recorder.add(0, std::vector<StepRow>{sample_step(0, 0)});
  recorder.add(1, std::vector<StepRow>{sample_step(1, 0)});
  recorder.add(0, sample_record().ranks.front());
  const RunRecord record = recorder.record(RunStatus::failed, "peer lost: rank 1");
  EXPECT_EQ(record.status, RunStatus::failed);
  EXPECT_EQ(record.error, "peer lost: rank 1");
  EXPECT_EQ(record.steps.size(), 2U);
  ASSERT_EQ(record.ranks.size(), 2U);
  EXPECT_TRUE(record.ranks[0].complete);
  EXPECT_FALSE(record.ranks[1].complete);
  EXPECT_EQ(record.ranks[1].samples_seen, 32U);
  EXPECT_EQ(record.ranks[1].host, "node0");
  EXPECT_EQ(record.hosts, std::vector<std::string>{"node0"});
  bool named = false;
  for (const std::string& warning : record.warnings)
    named |= warning.starts_with("rank 1 did not report");
  EXPECT_TRUE(named);
}

TEST(RunRecorder, ABadReportIsAWarning) {
  RunRecorder recorder(sample_record().config, two_ranks());
  const Blob nonsense(3, std::byte{9});
  recorder.add(1, nonsense);
  const auto warnings = recorder.record(RunStatus::finished).warnings;
  ASSERT_FALSE(warnings.empty());
  EXPECT_TRUE(warnings[0].starts_with("a report of rank 1 was lost: ")) << warnings[0];
}

TEST(RunRecorder, PhasesThatDoNotAddUpAreAWarning) {
  RunRecorder recorder(sample_record().config, two_ranks());
  StepRow row = sample_step(0, 3);
  recorder.add(0, std::vector<StepRow>{sample_step(0, 2)});
  EXPECT_TRUE(recorder.record(RunStatus::finished).warnings[0].find("do not add up") ==
              std::string::npos);
  row.totals.phases[0] += base::Duration(1);
  recorder.add(0, std::vector<StepRow>{row, row});
  const auto warnings = recorder.record(RunStatus::finished).warnings;
  EXPECT_EQ(warnings[0],
            "the phases of a step do not add up to its wall time: rank 0, first at step 3");
  EXPECT_EQ(recorder.steps().size(), 3U);
}

TEST(RunRecorder, VirtualTimeHasNoTimeToFirstStep) {
  auto start = two_ranks();
  start.source = RunSource::simulated;
  RunRecorder recorder(sample_record().config, start);
  recorder.add(0, started_on("node0"));
  recorder.add(0, std::vector<StepRow>{sample_step(0, 0)});
  const RunRecord record = recorder.record(RunStatus::finished);
  EXPECT_FALSE(record.summary.time_to_first_step_seconds);
  EXPECT_EQ(to_json(record).at("source"), "simulated");
}

}  // namespace
}  // namespace dlobd::metrics
