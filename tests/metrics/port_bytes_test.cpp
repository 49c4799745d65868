#include "metrics/port_bytes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "metrics/sample.h"

namespace dlobd::metrics {
namespace {

namespace fs = std::filesystem;

// A /sys of one's own.
class PortBytesTest : public ::testing::Test {
 protected:
  PortBytesTest()
      : root_(fs::temp_directory_path() / ("dlobd-ports-" + std::to_string(getpid()))) {}
  ~PortBytesTest() override { fs::remove_all(root_); }

  void write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }

  fs::path root_;
};

TEST_F(PortBytesTest, AnInterfaceCountsBytes) {
  write("sys/class/net/eth7/statistics/tx_bytes", "123456789012\n");
  write("sys/class/net/eth7/statistics/rx_bytes", "5\n");
  const auto bytes = interface_bytes("eth7", root_.string());
  ASSERT_TRUE(bytes);
  EXPECT_EQ(bytes->sent, 123'456'789'012U);
  EXPECT_EQ(bytes->received, 5U);
}

TEST_F(PortBytesTest, APortOfADeviceCountsWords) {
  write("sys/class/infiniband/mlx5_0/ports/2/counters/port_xmit_data", "1000\n");
  write("sys/class/infiniband/mlx5_0/ports/2/counters/port_rcv_data", "7\n");
  const auto bytes = device_bytes("mlx5_0", 2, root_.string());
  ASSERT_TRUE(bytes);
  EXPECT_EQ(bytes->sent, 4'000U);
  EXPECT_EQ(bytes->received, 28U);
  EXPECT_FALSE(device_bytes("mlx5_0", 1, root_.string()));
}

TEST_F(PortBytesTest, ACounterThatIsFullIsNoCount) {
  const std::string folder = "sys/class/infiniband/mlx4_0/ports/1/counters/";
  write(folder + "port_rcv_data", "7\n");
  for (const char* const full : {"4294967295\n", "18446744073709551615\n"}) {
    write(folder + "port_xmit_data", full);
    EXPECT_FALSE(device_bytes("mlx4_0", 1, root_.string())) << full;
  }
  write(folder + "port_xmit_data", "4294967296\n");  // it has more than 32 bits
  EXPECT_TRUE(device_bytes("mlx4_0", 1, root_.string()));
}

TEST(Carried, IsWhatCameInBetween) {
  const auto bytes = carried({.sent = 10, .received = 20}, {.sent = 15, .received = 20});
  ASSERT_TRUE(bytes);
  EXPECT_EQ(bytes->sent, 5U);
  EXPECT_EQ(bytes->received, 0U);
}

TEST(Carried, IsNotKnownOfCountersThatWentBack) {
  EXPECT_FALSE(carried({.sent = 10, .received = 20}, {.sent = 9, .received = 21}));
  EXPECT_FALSE(carried({.sent = 10, .received = 20}, {.sent = 11, .received = 0}));
}

TEST_F(PortBytesTest, WhatIsNoNumberIsNoCount) {
  write("sys/class/net/eth7/statistics/tx_bytes", "N/A (no PMA)\n");
  write("sys/class/net/eth7/statistics/rx_bytes", "5\n");
  EXPECT_FALSE(interface_bytes("eth7", root_.string()));
  EXPECT_FALSE(interface_bytes("eth8", root_.string()));
}

TEST_F(PortBytesTest, LoopbackOfThisHostCounts) {
  EXPECT_TRUE(interface_bytes("lo"));
}

// Two ranks on a host each.
RunRecord between_hosts(std::uint64_t sent, std::optional<PortBytes> port) {
  RunRecord record = sample_record();
  for (RankSummary& rank : record.ranks) {
    rank.complete = true;
    rank.host = "node" + std::to_string(rank.rank);
    rank.data_sent.bytes = 0;
    rank.control_sent.bytes = 0;
    rank.apart_sent.bytes = 0;
  }
  record.ranks.back().data_sent.bytes = sent;
  record.ranks.back().port = port;
  return record;
}

TEST(OtherWay, IsToldOfARankWhosePortCarriedLessThanItSent) {
  const auto told = other_way(between_hosts(1'000, PortBytes{.sent = 999, .received = 0}));
  ASSERT_TRUE(told);
  EXPECT_NE(told->find("rank 1 sent 1000, the port that it opened (eth0) carried 999"),
            std::string::npos)
      << *told;
}

TEST(OtherWay, IsNotToldOfPortsThatCarriedMoreOrDoNotCount) {
  EXPECT_FALSE(other_way(between_hosts(1'000, PortBytes{.sent = 1'000, .received = 0})));
  EXPECT_FALSE(other_way(between_hosts(1'000, {})));
}

TEST(OtherWay, IsNotToldWithinAHost) {
  RunRecord record = between_hosts(1'000, PortBytes{.sent = 0, .received = 0});
  for (RankSummary& rank : record.ranks) rank.host = "node";
  EXPECT_FALSE(other_way(record));
}

}  // namespace
}  // namespace dlobd::metrics
