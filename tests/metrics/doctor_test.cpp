#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>

#include "doctor_checks.h"
#include "doctor_child.h"
#include "sample.h"

namespace dlobd::app {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(DoctorChild, GivesWhatTheWorkReturns) {
  const std::string large(200'000, 'x');
  const auto text = in_child([&] { return large; }, seconds(20));
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text, large);
}

TEST(DoctorChild, ACrashIsAnAnswerAndNotTheEnd) {
  const auto text = in_child(
      []() -> std::string {
        ::raise(SIGKILL);
        return "unreachable";
      },
      seconds(20));
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().kind, base::ErrorKind::unavailable);
  EXPECT_NE(text.error().message.find("signal 9"), std::string::npos) << text.error().message;
}

TEST(DoctorChild, AHangEndsWithTheTimeOut) {
  const base::Time before = base::steady_now();
  const auto text = output_of({"sh", "-c", "sleep 100; echo late"}, milliseconds(100));
  ASSERT_FALSE(text);
  EXPECT_NE(text.error().message.find("did not end within"), std::string::npos);
  EXPECT_LT(base::steady_now() - before, seconds(30));
}

TEST(DoctorChild, ProgramsPrintOrFailByName) {
  const auto both = output_of({"sh", "-c", "echo out; echo err >&2"}, seconds(20));
  ASSERT_TRUE(both);
  EXPECT_EQ(*both, "out\nerr\n");
  EXPECT_EQ(output_of({"/no/such/program"}, seconds(20)).error().message, "it cannot be run");
  EXPECT_EQ(output_of({"sh", "-c", "exit 3"}, seconds(20)).error().message,
            "it ended with exit status 3");
}

class BigData : public testing::Test {
 protected:
  void program(const std::string& path, const std::string& script) const {
    const fs::path file = folder_.path() / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << "#!/bin/sh\n" << script << "\n";
    ::chmod(file.c_str(), 0755);
  }
  void file(const std::string& path) const {
    fs::create_directories((folder_.path() / path).parent_path());
    std::ofstream(folder_.path() / path) << "x";
  }
  [[nodiscard]] std::string at(const std::string& path) const {
    return (folder_.path() / path).string();
  }
  [[nodiscard]] Variables variables() const {
    return [this](const std::string& name) -> std::optional<std::string> {
      const auto found = values_.find(name);
      if (found == values_.end()) return std::nullopt;
      return found->second;
    };
  }
  std::map<std::string, std::string> values_;

 private:
  metrics::TestFolder folder_;
};

TEST_F(BigData, WhatIsMissingSaysWhatWouldBringIt) {
  values_["PATH"] = at("empty") + "::" + at("nothing");
  const auto all = check_big_data(variables());
  ASSERT_EQ(all.size(), 3U);
  for (const Capability& one : all) {
    EXPECT_EQ(one.finding, Finding::missing) << one.name;
    EXPECT_FALSE(one.remedy.empty()) << one.name;
  }
}

TEST_F(BigData, WhatIsThereHasItsVersionAndPath) {
  program("java/bin/java", "echo 'openjdk version \"17.0.9\"' >&2; echo more");
  program("spark/bin/spark-submit", "exit 1");
  file("spark/jars/spark-core_2.12-3.5.1.jar");
  program("hadoop/bin/hdfs", "exit 1");
  file("hadoop/share/hadoop/common/hadoop-common-3.3.6.jar");
  values_["PATH"] = at("spark/bin");
  values_["JAVA_HOME"] = at("java");
  values_["HADOOP_HOME"] = at("hadoop");
  const auto all = check_big_data(variables());
  ASSERT_EQ(all.size(), 3U);
  for (const Capability& one : all) EXPECT_EQ(one.finding, Finding::ok) << one.found;
  EXPECT_EQ(all[0].found, "openjdk version \"17.0.9\", " + at("java/bin/java"));
  EXPECT_EQ(all[1].found, "3.5.1, " + at("spark/bin/spark-submit"));
  EXPECT_EQ(all[2].found, "3.3.6, " + at("hadoop/bin/hdfs"));
}

TEST_F(BigData, AJavaThatDoesNotRunIsMissing) {
  program("bin/java", "kill -SEGV $$");
  values_["PATH"] = at("bin");
  const auto all = check_big_data(variables());
  EXPECT_EQ(all[0].finding, Finding::missing);
  EXPECT_NE(all[0].found.find("signal 11"), std::string::npos) << all[0].found;
}

}  // namespace
}  // namespace dlobd::app
