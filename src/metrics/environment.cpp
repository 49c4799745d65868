#include "metrics/environment.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <utility>

#include "metrics/devices.h"
#include "metrics/files.h"

namespace dlobd::metrics {
namespace {

namespace fs = std::filesystem;

std::optional<double> number(std::string_view text) {
  text = trim(text);
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

// cpu.max: "200000 100000", or "max 100000" for no limit.
std::optional<double> quota_v2(const fs::path& group) {
  const auto text = read_text((group / "cpu.max").string());
  if (!text) return std::nullopt;
  std::istringstream in(*text);
  std::string quota;
  std::string period;
  in >> quota >> period;
  const auto quota_us = number(quota);
  const auto period_us = number(period);
  if (!quota_us || !period_us || *period_us <= 0) return std::nullopt;
  return *quota_us / *period_us;
}

std::optional<double> quota_v1(const fs::path& group) {
  const auto quota_us = number(read_text((group / "cpu.cfs_quota_us").string()).value_or(""));
  const auto period_us = number(read_text((group / "cpu.cfs_period_us").string()).value_or(""));
  if (!quota_us || !period_us || *quota_us <= 0 || *period_us <= 0) return std::nullopt;
  return *quota_us / *period_us;
}

// The tightest limit of `path` and the groups around it. In a container `path` may be the host's
// name for the group, of which only the mount itself is visible.
template <class Read>
std::optional<double> tightest(const fs::path& mount, const std::string& path, Read read) {
  std::optional<double> least;
  for (fs::path group = fs::path(path).relative_path();; group = group.parent_path()) {
    if (const auto quota = read(mount / group); quota && (!least || *quota < *least)) least = quota;
    if (group.empty()) return least;
  }
}

std::string affinity_text(std::vector<int> cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += i == last ? fmt::format("{}", cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[last]);
    i = last + 1;
  }
  return text;
}

std::optional<std::string> affinity() {
  // The kernel refuses a set smaller than its own; grow until it fits.
  for (int cpus = 1024; cpus <= 1 << 18; cpus *= 4) {
    cpu_set_t* set = CPU_ALLOC(cpus);
    const std::size_t bytes = CPU_ALLOC_SIZE(cpus);
    std::vector<int> members;
    const bool ok = sched_getaffinity(0, bytes, set) == 0;
    for (int cpu = 0; ok && cpu < cpus; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set)) members.push_back(cpu);
    }
    CPU_FREE(set);
    if (ok) return affinity_text(std::move(members));
  }
  return std::nullopt;
}

std::string host_name() {
  char text[256] = {};
  if (gethostname(text, sizeof(text) - 1) != 0) return "unknown";
  return text;
}

}  // namespace

std::optional<double> read_quota(const std::string& root) {
  const fs::path mounts = fs::path(root) / "sys/fs/cgroup";
  std::istringstream groups(read_text((fs::path(root) / "proc/self/cgroup").string()).value_or(""));
  std::optional<double> least;
  const auto take = [&](std::optional<double> quota) {
    if (quota && (!least || *quota < *least)) least = quota;
  };
  // "0::/path" (version 2) or "4:cpu,cpuacct:/path" (version 1).
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      take(tightest(mounts, path, quota_v2));
    } else if (("," + controllers + ",").find(",cpu,") != std::string::npos) {
      take(tightest(mounts / controllers, path, quota_v1));
      take(tightest(mounts / "cpu", path, quota_v1));
    }
  }
  return least;
}

Environment read_environment(const std::string& root) {
  Environment found;
  found.host = host_name();
  const auto set = [&](const char* key, auto& field_of, auto value, const char* reason) {
    field_of = std::move(value);
    if (!field_of) found.unknown[key] = reason;
  };
  set("cpu_model", found.cpu_model,
      field(read_text(root + "/proc/cpuinfo").value_or(""), "model name"),
      "/proc/cpuinfo names no model");
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  set("cores", found.cores, cores > 0 ? std::optional<std::int64_t>(cores) : std::nullopt,
      "the system does not say");
  set("quota", found.quota, read_quota(root), "no control group limits the CPUs");
  set("affinity", found.affinity, affinity(), "the kernel does not say");
  struct sysinfo memory {};
  const bool memory_known = sysinfo(&memory) == 0;
  set("memory_bytes", found.memory_bytes,
      memory_known ? std::optional<std::int64_t>(static_cast<std::int64_t>(memory.totalram) *
                                                 memory.mem_unit)
                   : std::nullopt,
      "the kernel does not say");
  utsname system{};
  set("os_kernel", found.os_kernel,
      uname(&system) == 0
          ? std::optional<std::string>(fmt::format("{} {}", system.sysname, system.release))
          : std::nullopt,
      "the kernel does not say");
  const Gpus gpus = read_gpus(root);
  if (gpus.models.empty()) {
    found.unknown["gpu"] = gpus.why_none;
  } else {
    std::string names;
    for (const std::string& model : gpus.models) names += (names.empty() ? "" : ", ") + model;
    found.gpu = names;
  }
  found.gpu_driver = gpus.driver;
  if (!gpus.driver) found.unknown["gpu_driver"] = gpus.why_none;
  return found;
}

}  // namespace dlobd::metrics
