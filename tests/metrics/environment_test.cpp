#include "metrics/environment.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "metrics/devices.h"
#include "metrics/process.h"
#include "sample.h"

namespace dlobd::metrics {
namespace {

namespace fs = std::filesystem;

// A made-up /proc and /sys.
class Host {
 public:
  void put(const std::string& path, const std::string& text) const {
    const fs::path file = folder_.path() / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  [[nodiscard]] std::string root() const { return folder_.path().string(); }

 private:
  TestFolder folder_;
};

TEST(Environment, OfThisHostEveryFieldIsKnownOrSaysWhyNot) {
  const Environment here = read_environment();
  EXPECT_FALSE(here.host.empty());
  EXPECT_EQ(here.cores, sysconf(_SC_NPROCESSORS_ONLN));
  EXPECT_GT(*here.memory_bytes, 1 << 20);
  EXPECT_TRUE(here.affinity);
  const auto json = to_json(here);
  for (const auto& item : json.items()) {
    if (!item.value().is_null()) continue;
    const auto& reason = json["unknown"].at(item.key());
    EXPECT_FALSE(reason.get<std::string>().empty()) << item.key();
  }
  const auto back = environment_from_json(json);
  ASSERT_TRUE(back);
  EXPECT_EQ(to_json(*back), json);
}

TEST(Environment, ReadsTheProcessor) {
  const Host host;
  host.put("proc/cpuinfo", "processor\t: 0\nmodel name\t: A CPU @ 2.4GHz\n\nmodel name\t: Other\n");
  EXPECT_EQ(read_environment(host.root()).cpu_model, "A CPU @ 2.4GHz");
  const Host bare;
  const Environment unknown = read_environment(bare.root());
  EXPECT_FALSE(unknown.cpu_model);
  EXPECT_EQ(unknown.unknown.at("cpu_model"), "/proc/cpuinfo names no model");
}

TEST(Environment, QuotaOfVersionTwoIsTheTightestOnThePath) {
  const Host host;
  host.put("proc/self/cgroup", "0::/jobs/one\n");
  host.put("sys/fs/cgroup/jobs/cpu.max", "150000 100000\n");
  host.put("sys/fs/cgroup/jobs/one/cpu.max", "max 100000\n");
  EXPECT_EQ(read_quota(host.root()), 1.5);
  host.put("sys/fs/cgroup/jobs/one/cpu.max", "50000 100000\n");
  EXPECT_EQ(read_quota(host.root()), 0.5);
}

TEST(Environment, QuotaOfVersionTwoInAContainer) {
  const Host host;
  host.put("proc/self/cgroup", "0::/\n");
  host.put("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(read_quota(host.root()), 2);
}

TEST(Environment, QuotaOfVersionOne) {
  const Host host;
  host.put("proc/self/cgroup", "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n");
  EXPECT_FALSE(read_quota(host.root()));
  // In a container the group of the host's name is the mount itself.
  host.put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "250000\n");
  host.put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(read_quota(host.root()), 2.5);
  host.put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  EXPECT_FALSE(read_quota(host.root()));
}

TEST(Environment, GpusByTheDriversOwnFiles) {
  const Host host;
  const Gpus none = read_gpus(host.root());
  EXPECT_TRUE(none.models.empty());
  EXPECT_EQ(none.why_none, "no NVIDIA driver is loaded");
  host.put(
      "proc/driver/nvidia/version",
      "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n");
  host.put("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA K80\nIRQ: 1\n");
  host.put("proc/driver/nvidia/gpus/0000:02:00.0/information", "Model: \t\t NVIDIA K80\n");
  const Environment environment = read_environment(host.root());
  EXPECT_EQ(environment.gpu, "NVIDIA K80, NVIDIA K80");
  EXPECT_EQ(environment.gpu_driver, "535.104.05");
  EXPECT_FALSE(environment.unknown.contains("gpu"));
}

TEST(Devices, InterfacesHaveAddressesAndSpeeds) {
  bool loopback = false;
  for (const Interface& interface : read_interfaces()) {
    if (!interface.loopback) continue;
    loopback = true;
    EXPECT_NE(std::find(interface.addresses.begin(), interface.addresses.end(), "127.0.0.1"),
              interface.addresses.end());
  }
  EXPECT_TRUE(loopback);
  const Host host;
  host.put("sys/class/net/ib0/speed", "56000\n");
  host.put("sys/class/net/veth0/speed", "-1\n");
  EXPECT_EQ(link_speed("ib0", host.root()), 56'000'000'000);
  EXPECT_FALSE(link_speed("veth0", host.root()));
  EXPECT_FALSE(link_speed("none", host.root()));
}

TEST(Devices, RdmaDevicesAreTakenFromTheKernel) {
  const Host host;
  EXPECT_TRUE(read_rdma_devices(host.root()).empty());
  host.put("sys/class/infiniband/mlx5_0/device/driver/module", "");
  host.put("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  host.put("sys/class/infiniband/mlx5_0/ports/1/rate", "56 Gb/sec (4X FDR)\n");
  host.put("sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
  host.put("sys/class/infiniband/rxe0/ports/1/state", "1: DOWN\n");
  const auto devices = read_rdma_devices(host.root());
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[0].name, "mlx5_0");
  EXPECT_EQ(devices[0].state, "ACTIVE");
  EXPECT_EQ(devices[0].rate, "56 Gb/sec (4X FDR)");
  EXPECT_EQ(devices[0].link_layer, "InfiniBand");
  EXPECT_FALSE(devices[0].software);
  EXPECT_TRUE(devices[1].software);
}

TEST(Process, PeakMemoryGrowsByWhatIsTouched) {
  const std::uint64_t before = peak_rss_bytes();
  EXPECT_GT(before, 1U << 20);
  std::vector<char> block(64 << 20, 1);
  EXPECT_GT(block[block.size() / 2], 0);
  EXPECT_GE(peak_rss_bytes(), before + (32U << 20));
}

TEST(Process, StartedNotLongAgo) {
  const std::int64_t age = unix_now_ns() - process_started_unix_ns();
  EXPECT_GE(age, -20'000'000);
  EXPECT_LT(age, 120'000'000'000);
}

TEST(Process, TimesHaveTheIsoForm) {
  EXPECT_EQ(iso_time(1'772'366'400'123'456'789), "2026-03-01T12:00:00.123Z");
}

}  // namespace
}  // namespace dlobd::metrics
