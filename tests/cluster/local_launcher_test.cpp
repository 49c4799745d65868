#include "cluster/local_launcher.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <thread>

#include "base/descriptor.h"
#include "cluster/own_environment.h"
#include "cluster/report_pipe.h"
#include "cluster/tcp_link.h"

namespace dlobd::cluster {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

LaunchOptions ranks_that(std::vector<std::string> words) {
  LaunchOptions options;
  options.ranks = static_cast<int>(words.size());
  options.command = [words](int rank, const std::string& rendezvous) {
    return std::vector<std::string>{LAUNCHED_RANK, words[static_cast<std::size_t>(rank)],
                                    std::to_string(rank), rendezvous};
  };
  options.environment = [](int) { return testing::own_environment(); };
  options.grace = 300ms;
  options.kill_grace = 300ms;
  return options;
}

std::string text_of(const std::vector<std::byte>& blob) {
  return {reinterpret_cast<const char*>(blob.data()), blob.size()};
}

bool exists(pid_t pid) {
  return ::kill(pid, 0) == 0;
}

// Waits until no such process is left (an orphan is reaped by others, soon).
bool gone(pid_t pid, base::Duration patience = 10s) {
  const base::Time until = base::steady_now() + patience;
  while (base::steady_now() < until) {
    if (!exists(pid)) return true;
    std::string state;
    if (std::FILE* file = std::fopen(fmt::format("/proc/{}/stat", pid).c_str(), "r")) {
      std::array<char, 512> line{};
      if (std::fgets(line.data(), line.size(), file) != nullptr) state = line.data();
      std::fclose(file);
    }
    // Dead, only not waited for by whoever inherited it.
    if (state.find(") Z ") != std::string::npos) return true;
    ::usleep(10'000);
  }
  return false;
}

TEST(LocalLauncher, GivesReportsOutputAndExitCodes) {
  LaunchOptions options = ranks_that({"report", "report", "report"});
  options.environment = [](int rank) {
    auto all = testing::own_environment();
    all.push_back(fmt::format("DLOBD_TEST_EXTRA=extra {}", rank));
    return all;
  };
  std::vector<std::vector<std::string>> reports(3);
  std::vector<std::string> lines(3);
  LaunchCallbacks callbacks;
  callbacks.on_report = [&](int rank, const std::vector<std::byte>& blob) {
    reports[static_cast<std::size_t>(rank)].push_back(text_of(blob));
  };
  callbacks.on_line = [&](int rank, std::string_view line) {
    lines[static_cast<std::size_t>(rank)] += fmt::format("<{}>", line);
  };
  const auto outcome = launch_local(options, callbacks);
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_TRUE(outcome->good());
  EXPECT_EQ(outcome->interrupted_by, 0);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(outcome->ranks[rank].exit_code, 0) << outcome->ranks[rank].output;
    ASSERT_EQ(reports[rank].size(), 3U);
    EXPECT_THAT(reports[rank][0], HasSubstr(fmt::format("rank {} at 127.0.0.1:", rank)));
    EXPECT_THAT(reports[rank][0], HasSubstr(rank == 0 ? "listening 1" : "listening -1"));
    EXPECT_EQ(reports[rank][1], std::string(3 << 20, 'x'));
    EXPECT_EQ(reports[rank][2], fmt::format("extra {}", rank));
    EXPECT_EQ(lines[rank], fmt::format("<hello from {}><no newline>", rank));
    EXPECT_EQ(outcome->ranks[rank].output, fmt::format("hello from {}\nno newline", rank));
  }
}

TEST(LocalLauncher, ShowsLinesBehindTheRankOnlyWhenVerbose) {
  for (const bool verbose : {true, false}) {
    LaunchOptions options = ranks_that({"report", "report"});
    options.verbose = verbose;
    ::testing::internal::CaptureStderr();
    const auto outcome = launch_local(options, {});
    const std::string shown = ::testing::internal::GetCapturedStderr();
    ASSERT_TRUE(outcome);
    if (verbose) {
      EXPECT_THAT(shown, HasSubstr("[rank 1] hello from 1\n"));
      EXPECT_THAT(shown, HasSubstr("[rank 0] no newline\n"));
    } else {
      EXPECT_EQ(shown, "");
    }
  }
}

TEST(LocalLauncher, TellsHowEachRankEnded) {
  LaunchOptions options = ranks_that({"report", "abort", "report"});
  options.grace = std::chrono::seconds(30);  // the others are to end by themselves, however slow
  const auto outcome = launch_local(options, {});
  ASSERT_TRUE(outcome);
  EXPECT_FALSE(outcome->good());
  EXPECT_EQ(outcome->first_bad, 1);
  EXPECT_EQ(outcome->ranks[0].describe(), "exit code 0");
  EXPECT_EQ(outcome->ranks[1].signal, SIGABRT);
  EXPECT_EQ(outcome->ranks[1].describe(), "killed by signal 6 (Aborted)");
  EXPECT_EQ(outcome->ranks[1].output, "about to end\n");
}

TEST(LocalLauncher, PutsDownTheOthersWhenOneFails) {
  std::vector<pid_t> pids;
  LaunchCallbacks callbacks;
  callbacks.on_started = [&pids](int, int pid) { pids.push_back(pid); };
  const base::Time start = base::steady_now();
  const auto outcome = launch_local(ranks_that({"sleep", "stubborn", "exit"}), callbacks);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->first_bad, 2);
  EXPECT_EQ(outcome->ranks[2].exit_code, 2);
  EXPECT_FALSE(outcome->ranks[2].put_down);
  EXPECT_EQ(outcome->ranks[0].signal, SIGTERM);
  EXPECT_TRUE(outcome->ranks[0].put_down);
  EXPECT_EQ(outcome->ranks[1].signal, SIGKILL);
  EXPECT_GE(base::steady_now() - start, 600ms);
  for (const pid_t pid : pids) EXPECT_FALSE(exists(pid));
}

TEST(LocalLauncher, NamesAProgramThatIsNotThere) {
  LaunchOptions options = ranks_that({"sleep", "sleep"});
  std::vector<pid_t> pids;
  LaunchCallbacks callbacks;
  callbacks.on_started = [&pids](int, int pid) { pids.push_back(pid); };
  options.command = [](int rank, const std::string&) {
    return rank == 0 ? std::vector<std::string>{LAUNCHED_RANK, "sleep"}
                     : std::vector<std::string>{"/nowhere/dlobd"};
  };
  const auto outcome = launch_local(options, callbacks);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().message,
            "cannot run the program: /nowhere/dlobd: No such file or directory, while starting "
            "rank 1");
  ASSERT_EQ(pids.size(), 1U);
  EXPECT_FALSE(exists(pids[0]));  // the one that had started is not left
}

TEST(LocalLauncher, SaysThatThePortIsBusy) {
  const auto taken = listen_on("127.0.0.1:0");
  ASSERT_TRUE(taken);
  const base::Descriptor holds_it(*taken);
  LaunchOptions options = ranks_that({"sleep"});
  options.listen = local_address(*taken);
  const auto outcome = launch_local(options, {});
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().message, HasSubstr("address in use"));
  EXPECT_THAT(outcome.error().message, HasSubstr(options.listen));
}

TEST(LocalLauncher, NamesAnAddressThatIsNone) {
  LaunchOptions options = ranks_that({"sleep"});
  options.listen = "256.0.0.1:0";
  EXPECT_FALSE(launch_local(options, {}));
  options.listen = "127.0.0.1:99999";
  const auto outcome = launch_local(options, {});
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().message, HasSubstr("127.0.0.1:99999"));
}

TEST(LocalLauncher, WhatARankStartedEndsWithIt) {
  const auto outcome = launch_local(ranks_that({"grandchild"}), {});
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->good());
  const pid_t grandchild = std::stoi(outcome->ranks[0].output);
  EXPECT_TRUE(gone(grandchild)) << grandchild;
}

TEST(LocalLauncher, PassesAnInterruptOn) {
  LaunchOptions options = ranks_that({"interruptible", "interruptible"});
  options.grace = 20s;
  int ready = 0;
  LaunchCallbacks callbacks;
  callbacks.on_line = [&ready](int, std::string_view line) {
    if (line == "ready" && ++ready == 2) ::kill(::getpid(), SIGINT);
  };
  const auto outcome = launch_local(options, callbacks);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->interrupted_by, SIGINT);
  for (const RankExit& rank : outcome->ranks) {
    EXPECT_EQ(rank.exit_code, 130);
    EXPECT_EQ(rank.output, "ready\nending in order\n");
    EXPECT_FALSE(rank.put_down);
  }
}

TEST(LocalLauncher, ASecondInterruptPutsStubbornRanksDown) {
  LaunchOptions options = ranks_that({"stubborn"});
  LaunchCallbacks callbacks;
  callbacks.on_line = [](int, std::string_view) {
    ::kill(::getpid(), SIGINT);
    ::kill(::getpid(), SIGTERM);
  };
  const auto outcome = launch_local(options, callbacks);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->ranks[0].signal, SIGKILL);
}

// The launcher itself as a process: killed, it cannot end its ranks; the system does.
TEST(LocalLauncher, RanksDieWithAKilledLauncher) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    LaunchCallbacks callbacks;
    callbacks.on_started = [&ends](int, int pid) {
      if (::write(ends[1], &pid, sizeof pid) < 0) ::_exit(1);
    };
    const auto outcome = launch_local(ranks_that({"stubborn", "sleep", "stubborn"}), callbacks);
    ::_exit(outcome ? 0 : 1);
  }
  std::array<int, 3> pids{};
  for (int& pid : pids) {
    ASSERT_EQ(::read(ends[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
    EXPECT_TRUE(exists(pid));
  }
  ::kill(launcher, SIGKILL);
  ::waitpid(launcher, nullptr, 0);
  for (const int pid : pids) EXPECT_TRUE(gone(pid)) << pid;
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(ReportPipe, SurvivesALauncherThatIsGone) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ReportPipe pipe(ends[1]);
  ::close(ends[0]);
  for (int i = 0; i < 100; ++i) pipe.write(std::string(100'000, 'x'));
}

TEST(ReportParser, CutsAnyPiecesIntoBlobsAndRefusesNonsense) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  {
    ReportPipe pipe(ends[1]);
    for (const char* const text : {"first", "", "third"}) pipe.write(std::string_view(text));
  }
  std::vector<std::byte> bytes(1000);
  const ssize_t count = ::read(ends[0], bytes.data(), bytes.size());
  ::close(ends[0]);
  ASSERT_EQ(count, 3 * 4 + 10);
  std::vector<std::string> blobs;
  ReportParser parser([&](const std::vector<std::byte>& blob) { blobs.push_back(text_of(blob)); });
  for (ssize_t i = 0; i < count; ++i) {
    ASSERT_TRUE(parser.feed(std::span(bytes).subspan(static_cast<std::size_t>(i), 1)));
  }
  EXPECT_EQ(blobs, (std::vector<std::string>{"first", "", "third"}));
  const std::vector<std::byte> nonsense(4, std::byte{0xFF});
  EXPECT_FALSE(parser.feed(nonsense));
  EXPECT_FALSE(parser.feed({}));
}

}  // namespace
}  // namespace dlobd::cluster
