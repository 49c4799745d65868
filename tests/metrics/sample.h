// A record with something in every field, for tests.
#pragma once

#include <filesystem>
#include <string>

#include "metrics/run_record.h"

namespace dlobd::metrics {

inline StepRow sample_step(int rank, std::uint64_t step) {
  StepRow row;
  row.rank = rank;
  row.step = step;
  row.epoch = 0;
  row.totals.start = base::Time(1'000'000 * static_cast<std::int64_t>(step) + rank);
  row.totals.wall = base::Duration(900'000);
  row.totals.phases = {base::Duration(100'000), base::Duration(500'000), base::Duration(150'000),
                       base::Duration(0),       base::Duration(20'000),  base::Duration(110'000)};
  row.totals.unattributed = base::Duration(20'000);
  row.totals.communication = base::Duration(300'000);
  row.samples = 32;
  row.loss = 1.0 / (3.0 + static_cast<double>(step) + rank);
  return row;
}

inline RunRecord sample_record() {
  RunRecord record;
  record.started_at = "2026-03-01T12:00:00.123Z";
  record.config.stack = "caffeonspark";
  record.config.exchange = "cos_shard_push";
  record.config.behaviour = "faithful";
  record.config.defects = {{"write_256_bytes", "faithful"}, {"arrival_order", "fixed"}};
  record.config.network = "tcp";
  record.config.processor = "cpu+onednn";
  record.config.threads = 1;
  record.config.model = "lenet";
  record.config.data = "data/mnist";
  record.config.feed = "idx, drop_last";
  record.config.ranks = 2;
  record.config.local_batch_size = 32;
  record.config.global_batch_size = 64;
  record.config.epochs = 1;
  record.config.learning_rate = 0.01;
  record.config.lr_policy = "inv";
  record.config.momentum = 0.9;
  record.config.weight_decay = 0.0005;
  record.config.seed = 18446744073709551615ULL;
  record.config.more = {{"blas", "openblas"}, {"steps", nullptr}};
  record.environment.host = "node1";
  record.environment.cpu_model = "A CPU";
  record.environment.cores = 2;
  record.environment.quota = 1.5;
  record.environment.affinity = "0-1";
  record.environment.memory_bytes = 1LL << 34;
  record.environment.os_kernel = "Linux 6.1.0";
  record.environment.software_rdma = false;
  record.environment.interface = "eth0";
  record.environment.unknown = {{"gpu", "no NVIDIA driver is loaded"}};
  record.hosts = {"node1"};
  for (std::uint64_t step = 0; step < 8; ++step) {
    for (const int rank : {1, 0}) record.steps.push_back(sample_step(rank, step));
  }
  EvaluationRow evaluation;
  evaluation.step = 8;
  evaluation.epoch = 1;
  evaluation.time_ns = 9'000'000;
  evaluation.samples = 512;
  evaluation.loss = 0.1;
  evaluation.accuracy = 0.971;
  record.evaluations.push_back(evaluation);
  for (const int rank : {0, 1}) {
    RankSummary summary;
    summary.rank = rank;
    summary.host = "node1";
    summary.pid = 100 + rank;
    summary.data_sent = {.messages = 16, .bytes = 13'794'560};
    summary.data_received = {.messages = 16, .bytes = 13'794'560};
    summary.control_sent = {.messages = 8, .bytes = 64};
    summary.apart_sent = {.messages = 3, .bytes = 4'096};
    summary.heartbeats_sent = 2;
    summary.gathers_sent = 6;
    summary.gather_bytes_sent = 512;
    summary.peak_rss_bytes = 100 << 20;
    summary.cpu_ns = 17'000'000;
    summary.samples_seen = 256;
    record.ranks.push_back(summary);
  }
  record.ranks[1].complete = false;
  record.summary.samples_per_second = 71'111.1;
  record.summary.steps = 8;
  record.summary.samples_seen = 512;
  record.summary.train_seconds = 0.009;
  record.summary.test_accuracy = 0.971;
  record.summary.loss = 0.3;
  record.summary.phases = {{"compute", {.mean_ns = 500'000, .share = 0.55}}};
  record.summary.warmup_steps = 5;
  record.warnings = {"rank 1 did not report its end"};
  return record;
}

// A folder of this test alone, removed at its end.
class TestFolder {
 public:
  TestFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "dlobd-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace dlobd::metrics
