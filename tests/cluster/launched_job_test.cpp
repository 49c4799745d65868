// A job of real processes over TCP, as a user starts it; one of them is killed or stopped, or all
// are interrupted.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "cluster/local_launcher.h"
#include "cluster/own_environment.h"

namespace dlobd::cluster {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr int kRanks = 3;

struct JobEnd {
  std::vector<std::string> last_words{kRanks};
  std::vector<std::string> shipped;
  LaunchOutcome outcome;
  base::Duration took{0};  // from the blow to the end of all
};

// Sends `number` to `victim` (to the launcher itself: -1) when all ranks train.
JobEnd job_with(int victim, int number) {
  LaunchOptions options;
  options.ranks = kRanks;
  options.environment = [](int) { return testing::own_environment(); };
  options.grace = 2s;
  options.kill_grace = 200ms;
  options.command = [](int rank, const std::string& rendezvous) {
    return std::vector<std::string>{LAUNCHED_RANK, "member", std::to_string(rank), rendezvous,
                                    std::to_string(kRanks)};
  };
  JobEnd end;
  std::vector<int> pids;
  int ready = 0;
  base::Time blow{0};
  LaunchCallbacks callbacks;
  callbacks.on_started = [&pids](int, int pid) { pids.push_back(pid); };
  callbacks.on_report = [&](int rank, const std::vector<std::byte>& blob) {
    const std::string text(reinterpret_cast<const char*>(blob.data()), blob.size());
    if (text == "ready") {
      if (++ready < kRanks) return;
      blow = base::steady_now();
      ::kill(victim < 0 ? ::getpid() : pids[static_cast<std::size_t>(victim)], number);
    } else if (text.starts_with("shipped")) {
      end.shipped.push_back(text);
    } else {
      end.last_words[static_cast<std::size_t>(rank)] = text;
    }
  };
  auto outcome = launch_local(options, callbacks);
  EXPECT_TRUE(outcome);
  if (outcome) end.outcome = std::move(*outcome);
  EXPECT_EQ(ready, kRanks);
  end.took = base::steady_now() - blow;
  for (const RankExit& rank : end.outcome.ranks) {
    EXPECT_THAT(rank.output, ::testing::Not(HasSubstr("Sanitizer"))) << rank.output;
  }
  return end;
}

TEST(LaunchedJob, AnInterruptEndsAllRanksAfterTheSameStep) {
  const JobEnd end = job_with(-1, SIGINT);
  EXPECT_TRUE(end.outcome.good());
  EXPECT_EQ(end.outcome.interrupted_by, SIGINT);
  EXPECT_THAT(end.last_words[0], HasSubstr("stopped before step "));
  EXPECT_EQ(end.last_words, std::vector<std::string>(kRanks, end.last_words[0]));
  EXPECT_THAT(end.shipped, ::testing::UnorderedElementsAre("shipped 100 bytes of rank 0",
                                                           "shipped 100 bytes of rank 1",
                                                           "shipped 100 bytes of rank 2"));
}

TEST(LaunchedJob, AKilledRankIsNamedByAll) {
  const JobEnd end = job_with(2, SIGKILL);
  EXPECT_EQ(end.outcome.first_bad, 2);
  EXPECT_EQ(end.outcome.ranks[2].signal, SIGKILL);
  const std::string expected = "peer lost: rank 2, in phase train: its control link closed";
  EXPECT_EQ(end.last_words, (std::vector<std::string>{expected, expected, ""}));
  // The survivors end by themselves, and their records come to rank 0.
  EXPECT_EQ(end.outcome.ranks[0].exit_code, 1);
  EXPECT_EQ(end.outcome.ranks[1].exit_code, 1);
  EXPECT_THAT(end.shipped, ::testing::UnorderedElementsAre("shipped 100 bytes of rank 0",
                                                           "shipped 100 bytes of rank 1"));
}

TEST(LaunchedJob, AKilledRankZeroIsNamedByAll) {
  const JobEnd end = job_with(0, SIGKILL);
  const std::string expected = "peer lost: rank 0, in phase train: its control link closed";
  EXPECT_EQ(end.last_words, (std::vector<std::string>{"", expected, expected}));
  EXPECT_EQ(end.outcome.ranks[1].exit_code, 1);
}

TEST(LaunchedJob, AStoppedRankIsNamedByAll) {
  const JobEnd end = job_with(1, SIGSTOP);
  const std::string expected = "peer lost: rank 1, in phase train: no heartbeat for 2.0 s";
  EXPECT_EQ(end.last_words, (std::vector<std::string>{expected, "", expected}));
  EXPECT_EQ(end.outcome.ranks[1].signal, SIGKILL);
  EXPECT_TRUE(end.outcome.ranks[1].put_down);
}

TEST(LaunchedJob, AStoppedRankZeroIsNamedByAll) {
  const JobEnd end = job_with(0, SIGSTOP);
  const std::string expected = "peer lost: rank 0, in phase train: no heartbeat for 2.0 s";
  EXPECT_EQ(end.last_words, (std::vector<std::string>{"", expected, expected}));
  EXPECT_EQ(end.outcome.ranks[0].signal, SIGKILL);
}

}  // namespace
}  // namespace dlobd::cluster
