#include "metrics/csv.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/random.h"
#include "sample.h"

namespace dlobd::metrics {
namespace {

TEST(Csv, HasTheColumnsOfVersionOne) {
  EXPECT_EQ(steps_csv({}),
            "rank,step,start_ns,wall_ns,feed_ns,compute_ns,exchange_exposed_ns,wait_ns,schedule_ns,"
            "update_ns,unattributed_ns,communication_ns,samples,loss,staleness\n");
  EXPECT_EQ(evaluations_csv({}), "step,epoch,time_ns,samples,loss,accuracy\n");
}

TEST(Csv, StepsComeInOrder) {
  const std::string text = steps_csv({sample_step(1, 1), sample_step(0, 1), sample_step(1, 0)});
  const auto rows = parse_steps_csv(text);
  ASSERT_TRUE(rows) << rows.error().message;
  ASSERT_EQ(rows->size(), 3U);
  EXPECT_EQ((*rows)[0].step, 0U);
  EXPECT_EQ((*rows)[1].rank, 0);
  EXPECT_EQ((*rows)[2].rank, 1);
  EXPECT_EQ((*rows)[2].totals.phases, sample_step(1, 1).totals.phases);
}

TEST(Csv, EveryDoubleReadsBackAsItself) {
  base::Random random(1);
  std::vector<EvaluationRow> rows;
  for (int i = 0; i < 20'000; ++i) {
    EvaluationRow row;
    row.loss = std::bit_cast<double>(random.next());
    row.accuracy = static_cast<double>(random.next()) * 0x1p-64;
    rows.push_back(row);
  }
  rows.emplace_back().loss = std::numeric_limits<double>::infinity();
  rows.emplace_back().loss = -0.0;
  rows.emplace_back().loss = std::numeric_limits<double>::denorm_min();
  const auto back = parse_evaluations_csv(evaluations_csv(rows));
  ASSERT_TRUE(back) << back.error().message;
  ASSERT_EQ(back->size(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (std::isnan(rows[i].loss)) {
      EXPECT_TRUE(std::isnan((*back)[i].loss));
    } else {
      EXPECT_EQ(std::bit_cast<std::uint64_t>((*back)[i].loss),
                std::bit_cast<std::uint64_t>(rows[i].loss));
    }
    EXPECT_EQ((*back)[i].accuracy, rows[i].accuracy);
  }
}

TEST(Csv, ColumnsAreFoundByName) {
  const auto rows = parse_evaluations_csv(
      "accuracy,joules,step,epoch,time_ns,samples,loss\n0.5,9,1,2,3,4,0.25\n");
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_EQ((*rows)[0].accuracy, 0.5);
  EXPECT_EQ((*rows)[0].loss, 0.25);
  EXPECT_EQ((*rows)[0].step, 1U);
}

TEST(Csv, WhatIsWrongIsNamed) {
  const auto message = [](std::string_view text) {
    const auto rows = parse_evaluations_csv(text);
    return rows ? std::string() : rows.error().message;
  };
  const std::string head = "step,epoch,time_ns,samples,loss,accuracy\n";
  EXPECT_EQ(message(""), "no column \"step\"");
  EXPECT_EQ(message("step,epoch,time_ns,samples,accuracy\n"), "no column \"loss\"");
  EXPECT_EQ(message(head + "1,2,3,4,5\n"), "line 2 has 5 cells, the header 6");
  EXPECT_EQ(message(head + "1,2,3,4,5,6\n1,2,3,many,5,6\n"), "line 3, column samples is \"many\"");
  EXPECT_EQ(message(head + "1,2,3,-4,5,6\n"), "line 2, column samples is \"-4\"");
  EXPECT_EQ(message(head + "1,2,3,4,5,0.9"), "its last line is cut off");
}

}  // namespace
}  // namespace dlobd::metrics
