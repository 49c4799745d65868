// How rounds are drawn and compared, which designs and networks are meant, what sizes say: the
// arithmetic of `dlobd bench`, without a clock; and the programs and forked ranks that it waits
// for.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "../../apps/dlobd/bench_designs.h"
#include "../../apps/dlobd/bench_forked.h"
#include "../../apps/dlobd/bench_network.h"
#include "../../apps/dlobd/bench_pingpong.h"
#include "../../apps/dlobd/bench_process.h"
#include "../../apps/dlobd/bench_raw.h"
#include "../../apps/dlobd/bench_raw_pingpong.h"
#include "../../apps/dlobd/bench_rounds.h"
#include "../../apps/dlobd/bench_sizes.h"

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

TEST(BenchRounds, APercentileIsAValueThatWasMeasured) {
  std::vector<double> values(200);
  std::iota(values.begin(), values.end(), 1);
  std::reverse(values.begin(), values.end());
  EXPECT_EQ(percentile(values, 0.99), 198);
  EXPECT_EQ(percentile(values, 1), 200);
  EXPECT_EQ(percentile({7}, 0.99), 7);
}

TEST(BenchSizes, AreReadAndWritten) {
  EXPECT_EQ(*parse_size("8B", 1), 8U);
  EXPECT_EQ(*parse_size("1724320", 4), 1'724'320U);
  EXPECT_EQ(*parse_size("16MiB", 4), 16U << 20);
  EXPECT_EQ(*parse_size("4GiB", 1), std::uint64_t{4} << 30);
  for (const char* wrong : {"", "KiB", "0", "-4", "4kb", "4 KiB", "5GiB", "18446744073709551615GiB",
                            "99999999999999999999"}) {
    const auto refused = parse_size(wrong, 1);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_EQ(refused.error().kind, ErrorKind::invalid_argument);
    EXPECT_NE(refused.error().message.find("--sizes"), std::string::npos) << wrong;
  }
  EXPECT_FALSE(parse_size("6", 4));
  EXPECT_EQ(parse_sizes({"4KiB", "x"}, 4).error().message,
            "not a size such as 64KiB, 100MiB or 1724320: --sizes x");
  EXPECT_EQ(size_text(8), "8 B");
  EXPECT_EQ(size_text(4096), "4 KiB");
  EXPECT_EQ(size_text(1'724'320), "1724320 B");
  EXPECT_EQ(size_text(16 << 20), "16 MiB");
}

BenchNetwork network_of(const std::string& provider, const std::string& device, bool software) {
  BenchNetwork one;
  one.provider = provider;
  one.device = device;
  one.software = software;
  return one;
}

std::vector<BenchNetwork> some_networks() {
  return {BenchNetwork(), network_of("shm", "", true),
          network_of("verbs;ofi_rxm", "mlx5_0", false)};
}

TEST(BenchNetworks, AStandInIsCalledOne) {
  const auto all = some_networks();
  EXPECT_EQ(all[0].name(), "tcp");
  EXPECT_EQ(all[1].name(), "rdma_shm");
  EXPECT_EQ(all[1].title(), "rdma(shm), software stand-in");
  EXPECT_EQ(all[2].name(), "rdma_verbs_ofi_rxm_mlx5_0");
  EXPECT_EQ(all[2].title(), "rdma(verbs;ofi_rxm) on mlx5_0");
}

TEST(BenchNetworks, WhatMakesNoSenseIsRefused) {
  const auto refusal = [](BenchNetworkOptions options) {
    const auto chosen = choose_network(options, some_networks());
    return chosen ? "none" : chosen.error().message;
  };
  BenchNetworkOptions options;
  EXPECT_EQ(refusal(options), "none");
  options.network = "rmda";
  EXPECT_EQ(refusal(options), "no such network: rmda; did you mean rdma?");
  options.network = "tcp";
  options.provider = "shm";
  EXPECT_NE(refusal(options).find("add --network rdma"), std::string::npos) << refusal(options);
  options.network = "rdma";
  options.connections_per_peer = 2;
  EXPECT_NE(refusal(options).find("--connections-per-peer"), std::string::npos);
  options.connections_per_peer = 1;
  options.provider = "sockets";
  EXPECT_NE(refusal(options).find("refused: sockets"), std::string::npos) << refusal(options);
}

TEST(BenchNetworks, RealRdmaIsTakenByDefaultAndStandInsByName) {
  BenchNetworkOptions options;
  options.network = "rdma";
  const auto real = choose_network(options, some_networks());
  ASSERT_TRUE(real) << real.error().message;
  EXPECT_EQ(real->provider, "verbs;ofi_rxm");
  EXPECT_FALSE(real->software);
  const auto none = choose_network(options, {BenchNetwork(), network_of("shm", "", true)});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::unavailable);
  options.provider = "shm";
  const auto shm = choose_network(options, some_networks());
  ASSERT_TRUE(shm) << shm.error().message;
  EXPECT_TRUE(shm->software);
}

TEST(BenchDesigns, EveryStackWithItsBehavioursOverEveryNetwork) {
  const std::vector<BenchStack> stacks{{"allreduce", {}},
                                       {"bigdl", {"faithful", "fixed", "improved"}},
                                       {"plain", {"faithful", "fixed"}}};
  DesignChoices choices;
  choices.stacks = {"all"};
  choices.behaviours = {"improved"};
  choices.networks = {"rdma_shm", "tcp"};
  const auto some = designs_of(choices, stacks, some_networks());
  ASSERT_TRUE(some) << some.error().message;
  std::vector<std::string> names;
  for (const auto& one : *some) names.push_back(one.name);
  EXPECT_EQ(names, (std::vector<std::string>{"allreduce_rdma_shm", "allreduce",
                                             "bigdl_improved_rdma_shm", "bigdl_improved"}));
  EXPECT_EQ((*some)[2].title, "bigdl improved, rdma(shm), software stand-in");
  EXPECT_EQ((*some)[2].words,
            (std::vector<std::string>{"--stack", "bigdl", "--behaviour", "improved", "--network",
                                      "rdma", "--provider", "shm"}));
  choices.behaviours = choices.networks = {"all"};
  EXPECT_EQ(designs_of(choices, stacks, some_networks())->size(), 3U * (1 + 3 + 2));

  const auto refusal = [&](const DesignChoices& wrong) {
    const auto designs = designs_of(wrong, stacks, some_networks());
    return designs ? "none" : designs.error().message;
  };
  DesignChoices wrong;
  wrong.stacks = {"bigdI"};
  EXPECT_EQ(refusal(wrong), "no such stack: --stacks bigdI; did you mean bigdl?");
  wrong.stacks = {"spark"};
  EXPECT_EQ(refusal(wrong),
            "no such stack: --stacks spark; there are all, allreduce, bigdl, plain");
  wrong.stacks = {"plain"};
  wrong.behaviours = {"improved"};
  EXPECT_EQ(refusal(wrong), "no stack has such a behaviour: --stacks plain --behaviours improved");
  wrong.behaviours = {"fixed"};
  wrong.networks = {"rdma_smh"};
  EXPECT_NE(refusal(wrong).find("did you mean rdma_shm?"), std::string::npos) << refusal(wrong);
}

TEST(BenchPingPong, ThePlanHasEnoughForAPercentile) {
  for (const std::uint64_t bytes : {1U, 8U, 4096U, 65536U, 16U << 20}) {
    const auto plan = plan_of(bytes);
    EXPECT_GE(plan.round_trips, 100U);
    EXPECT_GE(plan.window, 2U);
    EXPECT_LE(plan.window, 64U);
    EXPECT_GE(plan.windows, 10U);
  }
  EXPECT_TRUE(goes(Way::write, 16 << 20));
  EXPECT_TRUE(goes(Way::message, 65536));
  EXPECT_FALSE(goes(Way::message, 65537));
}

TEST(BenchPingPong, FiguresOfBothRanks) {
  PingPongs lead;
  auto& one = lead[Way::write][4096];
  one.half_trips_us.assign(99, 2);
  one.half_trips_us.push_back(50);
  one.windows_us = {64, 64, 128};
  one.sent_bytes = 3000;
  one.copies.copied_bytes = 500;
  PingPongs other;
  other[Way::write][4096].sent_bytes = 1000;
  other[Way::write][4096].copies.copied_bytes = 1500;
  other[Way::write][4096].copies.injected_bytes = 7;
  const auto run = run_of({to_blob(lead), to_blob(other)});
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(run->figures.at("write_us_4096"), 2);
  EXPECT_EQ(run->figures.at("write_p99_us_4096"), 2);
  EXPECT_DOUBLE_EQ(run->figures.at("write_gigabytes_per_second_4096"), 4.096);  // 64 a window
  EXPECT_EQ(run->figures.at("write_copies_4096"), 0.5);
  EXPECT_EQ(run->figures.at("injected_bytes"), 7);
  EXPECT_FALSE(run->figures.contains("message_us_4096"));
  EXPECT_FALSE(run_of({Blob(), Blob()}));
}

TEST(BenchPingPong, AWrongByteIsNamed) {
  Blob bytes(5000);
  fill_pattern(bytes, 1);
  EXPECT_TRUE(check_pattern(bytes, 1));
  EXPECT_FALSE(check_pattern(bytes, 0));
  bytes[4321] ^= std::byte{1};
  EXPECT_EQ(check_pattern(bytes, 1).error().message,
            "wrong bytes arrived: from rank 1, byte 4321 of 5000");
}

TEST(BenchPingPong, EveryRawSettingCarriesItsBytes) {
  const Interrupt interrupt;
  const std::vector<std::uint64_t> sizes{1, 100'001};
  for (const auto& setting : raw_ping_pongs()) {
    const SharedMemory shared(shared_bytes(sizes));
    const auto blobs = run_forked(
        2, [&](Seat& seat) { return raw_ping_pong(seat, setting, shared.data(), sizes, 5); },
        interrupt, 60s);
    ASSERT_TRUE(blobs) << setting.name << ": " << blobs.error().message;
    const auto run = run_of(*blobs);
    ASSERT_TRUE(run) << run.error().message;
    EXPECT_GT(run->figures.at("write_us_100001"), 0);
    EXPECT_GT(run->figures.at("message_us_1"), 0);
    EXPECT_FALSE(run->figures.contains("message_us_100001"));
  }
}

TEST(BenchPingPong, EndpointsCountWhatTheyCopy) {
  const Interrupt interrupt;
  const std::vector<std::uint64_t> sizes{8, 200'000};
  const auto blobs = run_forked(
      2, [&](Seat& seat) { return ping_pong(seat, BenchNetwork(), sizes, 5); }, interrupt, 60s);
  ASSERT_TRUE(blobs) << blobs.error().message;
  const auto run = run_of(*blobs);
  ASSERT_TRUE(run) << run.error().message;
  // Small frames come many by one call through a buffer; of a large one, only its beginning.
  EXPECT_EQ(run->figures.at("write_copies_8"), 1);
  EXPECT_LT(run->figures.at("write_copies_200000"), 0.1);
  EXPECT_EQ(run->figures.at("temporary_registrations"), 0);
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
