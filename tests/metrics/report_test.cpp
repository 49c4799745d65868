#include "metrics/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"
#include "sample.h"

namespace dlobd::metrics {
namespace {

void expect_equal(const StepRow& a, const StepRow& b) {
  EXPECT_EQ(a.rank, b.rank);
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.epoch, b.epoch);
  EXPECT_EQ(a.totals.start, b.totals.start);
  EXPECT_EQ(a.totals.wall, b.totals.wall);
  EXPECT_EQ(a.totals.phases, b.totals.phases);
  EXPECT_EQ(a.totals.unattributed, b.totals.unattributed);
  EXPECT_EQ(a.totals.communication, b.totals.communication);
  EXPECT_EQ(a.samples, b.samples);
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.staleness, b.staleness);
}

std::vector<Report> all_sorts() {
  RankStarted started;
  started.rank = 3;
  started.role = "ps";
  started.pid = 77;
  started.training_started_unix_ns = 1'770'000'000'000'000'000;
  started.environment = sample_record().environment;
  const std::vector<StepRow> rows = {sample_step(1, 2), sample_step(1, 3)};
  ApartRow apart;
  apart.rank = 1;
  apart.kind = ApartKind::snapshot;
  apart.start = base::Time(5);
  apart.duration = base::Duration(7);
  return {started,
          rows,
          apart,
          sample_record().evaluations.front(),
          sample_record().ranks.front(),
          Warning{"the link is slow"},
          RankFailed{base::Error(base::ErrorKind::diverged, "the loss is not a number", 2)}};
}

TEST(Report, ComesBackAsItWas) {
  const auto reports = all_sorts();
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const auto decoded = decode(encode(reports[i]));
    ASSERT_TRUE(decoded) << decoded.error().message;
    ASSERT_EQ(decoded->index(), i);
    EXPECT_EQ(encode(*decoded), encode(reports[i]));
  }
  const auto rows = std::get<1>(*decode(encode(reports[1])));
  ASSERT_EQ(rows.size(), 2U);
  expect_equal(rows[0], sample_step(1, 2));
  expect_equal(rows[1], sample_step(1, 3));
  const auto started = std::get<0>(*decode(encode(reports[0])));
  EXPECT_EQ(started.environment.quota, 1.5);
  EXPECT_EQ(started.environment.interface, "eth0");
  EXPECT_FALSE(started.environment.gpu);
  EXPECT_EQ(started.environment.unknown.at("gpu"), "no NVIDIA driver is loaded");
  const auto failed = std::get<6>(*decode(encode(reports[6])));
  EXPECT_EQ(failed.error, std::get<6>(reports[6]).error);
  const base::Error nobody(base::ErrorKind::cancelled, "");
  EXPECT_EQ(std::get<6>(*decode(encode(RankFailed{nobody}))).error, nobody);
  const auto summary = std::get<4>(*decode(encode(reports[4])));
  EXPECT_EQ(summary.data_sent, (TrafficCount{.messages = 16, .bytes = 13'794'560}));
  EXPECT_EQ(summary.apart_sent, (TrafficCount{.messages = 3, .bytes = 4'096}));
  EXPECT_EQ(summary.heartbeats_sent, 2U);
  EXPECT_EQ(summary.gathers_sent, 6U);
  EXPECT_EQ(summary.gather_bytes_sent, 512U);
  EXPECT_FALSE(summary.credits_sent);
  EXPECT_EQ(summary.samples_seen, 256U);
  RankSummary credited = summary;
  credited.credits_sent = 9;
  EXPECT_EQ(std::get<4>(*decode(encode(Report(credited)))).credits_sent, 9U);
  EXPECT_FALSE(summary.port);
  RankSummary counted = summary;
  counted.port = PortBytes{.sent = 11, .received = 12};
  const auto port = std::get<4>(*decode(encode(Report(counted)))).port;
  ASSERT_TRUE(port);
  EXPECT_EQ(port->sent, 11U);
  EXPECT_EQ(port->received, 12U);
}

TEST(Report, CutOffAnywhereIsAnError) {
  for (const Report& report : all_sorts()) {
    const Blob whole = encode(report);
    for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
      const auto decoded = decode(std::span(whole).first(bytes));
      ASSERT_FALSE(decoded) << bytes << " of " << whole.size();
      EXPECT_EQ(decoded.error().kind, base::ErrorKind::corrupt_data);
    }
    Blob longer = whole;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(decode(longer));
  }
}

TEST(Report, ACountBeyondTheBytesAllocatesNothing) {
  Blob blob = encode(std::vector<StepRow>{sample_step(0, 0)});
  for (std::size_t i = 2; i < 10; ++i) blob[i] = std::byte{0xff};
  EXPECT_FALSE(decode(blob));
}

TEST(Report, AnyBytesAreAReportOrAnError) {
  base::Random random(7);
  const auto reports = all_sorts();
  for (int i = 0; i < 3000; ++i) {
    Blob blob = encode(reports[random.below(reports.size())]);
    for (int flips = 0; flips < 4; ++flips) {
      blob[random.below(blob.size())] = static_cast<std::byte>(random.below(256));
    }
    if (const auto decoded = decode(blob); !decoded) {
      EXPECT_EQ(decoded.error().kind, base::ErrorKind::corrupt_data);
    }
  }
}

TEST(Reporter, ShipsStepsTogetherAndInOrderWithTheRest) {
  std::vector<Report> shipped;
  Reporter reporter([&](Blob blob) { shipped.push_back(*decode(blob)); });
  for (std::uint64_t step = 0; step < 300; ++step) {
    StepRow row = sample_step(0, step);
    row.totals.start /= 10;
    reporter.add(row);
  }
  ASSERT_EQ(shipped.size(), 1U);
  EXPECT_EQ(std::get<1>(shipped[0]).size(), 256U);
  reporter.add(Report(Warning{"w"}));
  ASSERT_EQ(shipped.size(), 3U);
  EXPECT_EQ(std::get<1>(shipped[1]).size(), 44U);
  EXPECT_EQ(std::get<5>(shipped[2]).message, "w");
  reporter.flush();
  EXPECT_EQ(shipped.size(), 3U);
}

TEST(Reporter, ASlowStepIsNotKeptBack) {
  int blobs = 0;
  Reporter reporter([&](const Blob&) { ++blobs; });
  StepRow row = sample_step(0, 0);
  row.totals.wall = std::chrono::milliseconds(249);
  reporter.add(row);
  EXPECT_EQ(blobs, 0);
  row.totals.start += row.totals.wall;
  row.totals.wall = std::chrono::milliseconds(2);
  reporter.add(row);
  EXPECT_EQ(blobs, 1);
}

}  // namespace
}  // namespace dlobd::metrics
