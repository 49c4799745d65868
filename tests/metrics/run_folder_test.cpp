#include "metrics/run_folder.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <set>
#include <thread>

#include "metrics/csv.h"
#include "sample.h"
#include "syncs.h"

namespace dlobd::metrics {
namespace {

namespace fs = std::filesystem;

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

void replace(const fs::path& file, std::string_view text) {
  std::ofstream(file) << text;
}

TEST(RunFolder, SyncsTheEntryOfEveryFolderThatItMakes) {
  const TestFolder out;
  const auto folder = write_run(out.path() / "a/b/", sample_record());
  ASSERT_TRUE(folder) << folder.error().message;
  for (const char* const above : {"", "a", "a/b"}) {
    EXPECT_TRUE(testing::was_synced(out.path() / above)) << above;
  }
}

TEST(RunFolder, ComesBackAsItWas) {
  const TestFolder out;
  const RunRecord record = sample_record();
  const auto folder = write_run(out.path() / "a/b", record);
  ASSERT_TRUE(folder) << folder.error().message;
  EXPECT_TRUE(folder->filename().string().starts_with("20260301T120000Z-caffeonspark-"));
  EXPECT_EQ(names_in(*folder), (std::set<std::string>{"run.json", "steps.csv", "evaluations.csv"}));
  EXPECT_EQ(names_in(out.path() / "a/b").size(), 1U);
  const auto back = read_run(*folder);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(to_json(*back), to_json(record));
  EXPECT_EQ(steps_csv(back->steps), steps_csv(record.steps));
  EXPECT_EQ(evaluations_csv(back->evaluations), evaluations_csv(record.evaluations));
}

TEST(RunFolder, ATakenNameIsLeftAloneAndAnotherUsed) {
  const TestFolder out;
  fs::create_directories(out.path() / "run-0");
  replace(out.path() / "run-0/precious", "data");
  replace(out.path() / "run-1", "a file");
  int asked = 0;
  const auto folder =
      write_run(out.path(), sample_record(), [&] { return "run-" + std::to_string(asked++); });
  ASSERT_TRUE(folder) << folder.error().message;
  EXPECT_EQ(folder->filename(), "run-2");
  EXPECT_EQ(names_in(out.path() / "run-0"), std::set<std::string>{"precious"});
  const auto never = write_run(out.path(), sample_record(), [] { return std::string("run-0"); });
  ASSERT_FALSE(never);
  EXPECT_EQ(names_in(out.path()), (std::set<std::string>{"run-0", "run-1", "run-2"}));
}

TEST(RunFolder, ManyWritersAtOnceAllGetTheirOwn) {
  const TestFolder out;
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([&] {
      // All begin with the same few names.
      int asked = 0;
      for (int run = 0; run < 3; ++run) {
        const auto folder = write_run(out.path(), sample_record(),
                                      [&] { return "run-" + std::to_string(asked++); });
        EXPECT_TRUE(folder) << folder.error().message;
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(names_in(out.path()).size(), 12U);
  for (const auto& name : names_in(out.path())) EXPECT_TRUE(read_run(out.path() / name)) << name;
}

TEST(RunFolder, APlaceThatCannotHoldFoldersIsOneClearLine) {
  const TestFolder out;
  const fs::path file = out.path() / "file";
  replace(file, "x");
  for (const fs::path& below : {file, file / "runs", fs::path("/proc/runs")}) {
    const auto checked = check_writable(below);
    ASSERT_FALSE(checked) << below;
    EXPECT_EQ(checked.error().kind, base::ErrorKind::io_error);
    EXPECT_EQ(checked.error().message.find('\n'), std::string::npos);
    EXPECT_FALSE(write_run(below, sample_record()));
  }
  EXPECT_FALSE(check_writable(""));
  EXPECT_EQ(names_in(out.path()), std::set<std::string>{"file"});
}

TEST(RunFolder, TheCheckLeavesNothingBehind) {
  const TestFolder out;
  EXPECT_TRUE(check_writable(out.path()));
  EXPECT_TRUE(check_writable(out.path() / "not/yet/there"));
  EXPECT_TRUE(names_in(out.path()).empty());
  EXPECT_TRUE(check_writable("not-there-yet"));
}

// In a child whose files may not grow beyond `limit`: what a full disk does, without a disk.
int with_file_limit(rlim_t limit, const std::function<bool()>& refused) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit size{limit, limit};
    ::setrlimit(RLIMIT_FSIZE, &size);
    ::_exit(refused() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(RunFolder, AFullDiskIsOneClearErrorAndLeavesNothing) {
  const TestFolder out;
  // Enough for run.json and not for the steps.
  RunRecord record = sample_record();
  for (std::uint64_t step = 8; step < 2000; ++step) record.steps.push_back(sample_step(0, step));
  EXPECT_EQ(0, with_file_limit(32 << 10, [&] {
              const auto folder = write_run(out.path(), record);
              return !folder && folder.error().kind == base::ErrorKind::io_error &&
                     folder.error().message.find("steps.csv") != std::string::npos;
            }));
  EXPECT_EQ(0, with_file_limit(4096, [&] { return !check_writable(out.path()); }));
  EXPECT_TRUE(names_in(out.path()).empty());
}

TEST(RunFolder, KilledInMidWriteLeavesNoHalfRun) {
  const TestFolder out;
  RunRecord record = sample_record();
  for (std::uint64_t step = 8; step < 4000; ++step) record.steps.push_back(sample_step(0, step));
  for (int delay_us = 200; delay_us < 60'000; delay_us = delay_us * 3 / 2) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (;;) (void)write_run(out.path(), record);
    }
    ::usleep(static_cast<useconds_t>(delay_us));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
  }
  int whole = 0;
  for (const auto& name : names_in(out.path())) {
    if (name.starts_with(".partial-")) continue;
    const auto run = read_run(out.path() / name);
    ASSERT_TRUE(run) << run.error().message;
    EXPECT_EQ(run->steps.size(), record.steps.size());
    ++whole;
  }
  RecordProperty("whole_runs", whole);
}

TEST(RunFolder, WhatIsNoRunIsOneClearLine) {
  const TestFolder out;
  const auto folder = write_run(out.path(), sample_record());
  ASSERT_TRUE(folder);
  const auto refusal = [&] {
    const auto run = read_run(*folder);
    if (run) return std::string();
    EXPECT_EQ(run.error().message.find('\n'), std::string::npos);
    return run.error().message;
  };
  const std::string good = steps_csv(sample_record().steps);
  replace(*folder / "steps.csv", good.substr(0, good.size() / 2));
  EXPECT_NE(refusal().find("steps.csv: its last line is cut off"), std::string::npos);
  fs::remove(*folder / "steps.csv");
  EXPECT_NE(refusal().find("a run without steps.csv"), std::string::npos);
  replace(*folder / "run.json", "{\"schema\": ");
  EXPECT_NE(refusal().find("run.json: it is not JSON"), std::string::npos);
  replace(*folder / "run.json", "{\"schema\": \"dlobd.run_record/2.0\"}");
  EXPECT_NE(refusal().find("another version"), std::string::npos);
  replace(*folder / "run.json", "{}");
  EXPECT_NE(refusal().find("schema is missing"), std::string::npos);
  const auto absent = read_run(out.path() / "absent");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().kind, base::ErrorKind::not_found);
}

}  // namespace
}  // namespace dlobd::metrics
