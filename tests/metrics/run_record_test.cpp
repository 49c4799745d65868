#include "metrics/run_record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sample.h"

namespace dlobd::metrics {
namespace {

TEST(RunRecord, ComesBackAsItWas) {
  const auto json = to_json(sample_record());
  const auto back = run_record_from_json(json);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(to_json(*back), json);
  EXPECT_EQ(back->config.seed, 18446744073709551615ULL);
  EXPECT_EQ(back->config.more.at("blas"), "openblas");
  EXPECT_FALSE(back->ranks[1].complete);
}

TEST(RunRecord, WhatDoesNotApplyIsNullAndNotMissing) {
  RunRecord record = sample_record();
  record.config.behaviour.reset();
  record.config.threads.reset();
  record.summary.samples_per_second.reset();
  const auto json = to_json(record);
  EXPECT_TRUE(json["config"].at("behaviour").is_null());
  EXPECT_TRUE(json["config"].at("provider").is_null());
  EXPECT_TRUE(json["config"].at("threads").is_null());
  EXPECT_TRUE(json["summary"].at("samples_per_second").is_null());
  EXPECT_TRUE(json["environment"].at("gpu").is_null());
  EXPECT_EQ(json["environment"]["unknown"].at("gpu"), "no NVIDIA driver is loaded");
  EXPECT_EQ(json["environment"]["unknown"].at("cudnn"), "not used in this run");
  EXPECT_FALSE(json["environment"]["unknown"].contains("interface"));
  EXPECT_TRUE(json["ranks"][0].at("clock_error_ns").is_null());
  EXPECT_EQ(json["ranks"][0].at("heartbeats_sent"), 2);
  EXPECT_EQ(json["ranks"][0].at("gathers_sent"), 6);
  EXPECT_EQ(json["ranks"][0].at("gather_bytes_sent"), 512);
  EXPECT_TRUE(json["ranks"][0].at("credits_sent").is_null());
  EXPECT_TRUE(json["ranks"][1].at("bytes_sent").is_null());
  EXPECT_TRUE(json["ranks"][1].at("gathers_sent").is_null());
  EXPECT_EQ(json.at("wait_split"), false);
}

TEST(RunRecord, NotANumberIsNull) {
  RunRecord record = sample_record();
  record.summary.loss = std::nan("");
  record.config.learning_rate = std::numeric_limits<double>::infinity();
  const auto json = to_json(record);
  EXPECT_TRUE(json["summary"]["loss"].is_null());
  EXPECT_TRUE(json["config"]["learning_rate"].is_null());
  EXPECT_TRUE(run_record_from_json(json));
}

TEST(RunRecord, UnknownKeysAreIgnored) {
  auto json = to_json(sample_record());
  json["energy"] = {{"joules", 3}};
  json["summary"]["joules"] = 3;
  json["ranks"][0]["joules"] = 3;
  json["environment"]["weather"] = "fine";
  json["schema"] = "dlobd.run_record/1.9";
  EXPECT_TRUE(run_record_from_json(json));
}

std::string refusal(const nlohmann::json& json, base::ErrorKind kind) {
  const auto record = run_record_from_json(json);
  if (record) return "";
  EXPECT_EQ(record.error().kind, kind);
  EXPECT_EQ(record.error().message.find('\n'), std::string::npos);
  return record.error().message;
}

TEST(RunRecord, AnotherVersionIsRefused) {
  auto json = to_json(sample_record());
  for (const char* schema : {"dlobd.run_record/2.0", "dlobd.run_record/10.0"}) {
    json["schema"] = schema;
    EXPECT_NE(refusal(json, base::ErrorKind::unavailable).find(schema), std::string::npos);
  }
  json["schema"] = "something/1.0";
  EXPECT_EQ(refusal(json, base::ErrorKind::corrupt_data),
            "not a run record: its schema is \"something/1.0\"");
}

TEST(RunRecord, WhatIsWrongIsNamed) {
  const auto good = to_json(sample_record());
  const auto refused = [&](const char* pointer, const nlohmann::json& value) {
    auto json = good;
    json[nlohmann::json::json_pointer(pointer)] = value;
    return refusal(json, base::ErrorKind::corrupt_data);
  };
  EXPECT_EQ(refused("/summary/steps", "many"), "summary.steps is not what it should be: \"many\"");
  EXPECT_EQ(refused("/summary/steps", -1), "summary.steps is not what it should be: -1");
  EXPECT_EQ(refused("/ranks/1/role", 7), "ranks[1].role is not what it should be: 7");
  EXPECT_EQ(refused("/status", "exploded"), "status is \"exploded\"");
  EXPECT_EQ(refused("/config", 3), "config is no object");
  EXPECT_EQ(refused("/environment/cores", "two"),
            "environment.cores is not what it should be: \"two\"");
  EXPECT_EQ(refusal(nlohmann::json::array(), base::ErrorKind::corrupt_data), "it is no object");
  auto json = good;
  json["config"].erase("momentum");
  EXPECT_EQ(refusal(json, base::ErrorKind::corrupt_data), "config.momentum is missing");
}

}  // namespace
}  // namespace dlobd::metrics
