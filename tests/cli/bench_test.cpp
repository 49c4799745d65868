// How rounds are drawn and compared: the arithmetic of `dlobd bench`, without a clock; and the
// programs and forked ranks that it waits for.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "../../apps/dlobd/bench_forked.h"
#include "../../apps/dlobd/bench_process.h"
#include "../../apps/dlobd/bench_raw.h"
#include "../../apps/dlobd/bench_rounds.h"

namespace dlobd::app {
namespace {

using namespace std::chrono_literals;
using base::ErrorKind;

Run run_with(double us) {
  Run run;
  run.figures["us"] = us;
  return run;
}

TEST(BenchRounds, MedianOfOddAndEvenNumbers) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median({7}), 7);
}

// Round 1 is slow for both: the ratio within each round is 2, whatever the medians say.
TEST(BenchRounds, RatiosAreTakenWithinARound) {
  Campaign campaign;
  for (const double slow : {1.0, 10.0, 2.0}) {
    campaign.add_round();
    campaign.add("a", run_with(2 * slow));
    campaign.add("b", run_with(slow));
  }
  EXPECT_EQ(campaign.ratios("a", "b", "us"), (std::vector<double>{2, 2, 2}));
  EXPECT_EQ(campaign.values("a", "us"), (std::vector<double>{2, 20, 4}));
  EXPECT_TRUE(campaign.ratios("a", "nobody", "us").empty());
  const auto json = campaign.to_json("b");
  EXPECT_EQ(json["arms"]["a"]["us"]["median"], 4);
  EXPECT_EQ(json["arms"]["a"]["us"]["ratio_to_b"]["max"], 2);
  EXPECT_EQ(json["rounds"].size(), 3U);
}

TEST(BenchRounds, EachRoundRunsEveryArmOnceInAnOrderOfItsOwn) {
  std::vector<std::size_t> all(9);
  std::iota(all.begin(), all.end(), 0);
  bool differ = false;
  for (std::size_t round = 0; round < 20; ++round) {
    auto order = order_of_round(all.size(), 1, round);
    EXPECT_EQ(order, order_of_round(all.size(), 1, round));
    differ = differ || order != order_of_round(all.size(), 1, 0);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, all);
  }
  EXPECT_TRUE(differ);
}

TEST(BenchRounds, AFailingArmIsNamed) {
  const std::vector<Arm> arms{
      {"good", "good", [] { return base::Result<app::Run>(run_with(1)); }},
      {"bad", "bad", [] { return base::Result<app::Run>(base::fail(ErrorKind::io_error, "no")); }}};
  const auto campaign = run_rounds(arms, 3, 1, [](const std::string&) {});
  ASSERT_FALSE(campaign);
  EXPECT_EQ(campaign.error().message, "no, while running bad in round 1");
}

TEST(BenchForked, RanksSeeEachOthersBlobsAndGiveTheirs) {
  const Interrupt interrupt;
  const auto blobs = run_forked(
      3,
      [](Seat& seat) -> base::Result<Blob> {
        auto all = seat.all_gather(to_blob({static_cast<double>(seat.rank())}));
        if (!all) return base::fail(all.error());
        double sum = 0;
        for (const auto& blob : *all) sum = 10 * sum + from_blob(blob)[0];
        return to_blob({sum});
      },
      interrupt, 60s);
  ASSERT_TRUE(blobs) << blobs.error().message;
  for (const auto& blob : *blobs) EXPECT_EQ(from_blob(blob), (std::vector<double>{12}));
}

TEST(BenchForked, TheErrorOfARankIsTold) {
  const Interrupt interrupt;
  const auto blobs = run_forked(
      2,
      [](Seat& seat) -> base::Result<Blob> {
        if (seat.rank() == 1) return base::fail(ErrorKind::corrupt_data, "wrong sum");
        return Blob();
      },
      interrupt, 60s);
  ASSERT_FALSE(blobs);
  EXPECT_NE(blobs.error().message.find("rank 1: wrong sum"), std::string::npos)
      << blobs.error().message;
}

TEST(BenchForked, ASilentRankAndASignalEndTheWait) {
  const Interrupt interrupt;
  const RankBody sleep = [](Seat&) -> base::Result<Blob> {
    std::this_thread::sleep_for(60s);
    return Blob();
  };
  const auto late = run_forked(2, sleep, interrupt, 50ms);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, ErrorKind::deadline_exceeded);
  kill(getpid(), SIGINT);
  const auto stopped = run_forked(2, sleep, interrupt, 60s);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().kind, ErrorKind::cancelled);
}

// Every setting, with sizes that pieces and halves do not divide.
TEST(BenchRaw, EverySettingSumsRight) {
  const Interrupt interrupt;
  const std::vector<std::uint64_t> sizes{4, 12, 4096, 300'004, 5'000'000};
  constexpr std::size_t kIterations = 4;
  for (const auto& setting : raw_settings()) {
    const auto blobs = run_forked(
        2, [&](Seat& seat) { return raw_exchange(seat, setting, sizes, kIterations); }, interrupt,
        60s);
    ASSERT_TRUE(blobs) << setting.name << ": " << blobs.error().message;
    EXPECT_EQ(from_blob((*blobs)[0]).size(), kIterations * sizes.size());
  }
}

TEST(BenchProcess, OutputAndFailureOfAProgram) {
  const Interrupt interrupt;
  Command good;
  good.words = {"sh", "-c", "echo $WORD; echo aside >&2"};
  good.environment = {"WORD=said"};
  const auto finished = run_commands({&good, 1}, interrupt, 60s);
  ASSERT_TRUE(finished) << finished.error().message;
  EXPECT_EQ(finished->front().output, "said\n");
  EXPECT_EQ(finished->front().errors, "aside\n");

  Command bad;
  bad.words = {"sh", "-c", "echo first >&2; echo last >&2; exit 3"};
  const auto failed = run_commands({&bad, 1}, interrupt, 60s);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "a program of the benchmark failed: sh: exit status 3: last");
}

// The program's own children go with it.
TEST(BenchProcess, ASignalEndsTheWholeGroup) {
  const Interrupt interrupt;
  auto folder = TempFolder::make();
  ASSERT_TRUE(folder) << folder.error().message;
  const std::string file = folder->path() + "/pid";
  Command command;
  command.words = {
      "sh", "-c",
      "sleep 60 & echo $! > '" + file + "'; kill -INT " + std::to_string(getpid()) + "; wait"};
  const auto stopped = run_commands({&command, 1}, interrupt, 60s);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().kind, ErrorKind::cancelled);
  std::ifstream in(file);
  pid_t grandchild = 0;
  in >> grandchild;
  ASSERT_GT(grandchild, 1);
  // Gone, or a zombie that nobody has reaped yet.
  const auto alive = [grandchild] {
    std::ifstream stat("/proc/" + std::to_string(grandchild) + "/stat");
    std::string pid, name, state;
    return stat >> pid >> name >> state && state != "Z";
  };
  for (int i = 0; i < 500 && alive(); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_FALSE(alive());
}

TEST(BenchProcess, ATemporaryFolderGoesWithItsObject) {
  std::string path;
  {
    auto folder = TempFolder::make();
    ASSERT_TRUE(folder) << folder.error().message;
    path = folder->path();
    std::ofstream(path + "/file") << "x";
    ASSERT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace dlobd::app
