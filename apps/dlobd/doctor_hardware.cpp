#include <fmt/format.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "compute/blas.h"
#include "doctor_checks.h"
#include "doctor_child.h"
#include "metrics/devices.h"
#include "metrics/environment.h"
#include "metrics/files.h"

namespace dlobd::app {
namespace {

constexpr base::Duration kDevicePatience = std::chrono::seconds(20);

std::string mib(std::int64_t bytes) {
  return fmt::format("{} MiB", bytes >> 20);
}

std::string rate(std::int64_t bits_per_second) {
  return fmt::format("{:g} Gbit/s", static_cast<double>(bits_per_second) / 1e9);
}

Capability check_processor(const metrics::Environment& here) {
  const compute::CpuFeatures cpu = compute::detect_cpu();
  Capability one;
  one.name = "processor";
  const std::int64_t cores = here.cores.value_or(0);
  one.found = fmt::format("{}, {} cores ({})", here.cpu_model.value_or("model not known"), cores,
                          here.affinity.value_or("affinity not known"));
  one.found += cpu.avx512 ? ", AVX-512" : cpu.avx2_fma ? ", AVX2" : ", no AVX2";
  if (here.quota) {
    one.found += fmt::format(", quota {:g} CPUs", *here.quota);
    if (*here.quota < static_cast<double>(cores)) {
      one.finding = Finding::note;
      one.remedy = "ranks times threads should not exceed the quota; the control group sets it";
    }
  } else {
    one.found += ", no quota";
  }
  one.details = {{"cpu_model", here.cpu_model.value_or("")},
                 {"cores", cores},
                 {"affinity", here.affinity.value_or("")},
                 {"quota", here.quota ? nlohmann::json(*here.quota) : nlohmann::json()},
                 {"avx2_fma", cpu.avx2_fma},
                 {"avx512", cpu.avx512}};
  return one;
}

Capability check_memory(const metrics::Environment& here) {
  Capability one;
  one.name = "memory";
  const std::int64_t total = here.memory_bytes.value_or(0);
  std::int64_t available = 0;
  const auto text =
      metrics::field(metrics::read_text("/proc/meminfo").value_or(""), "MemAvailable");
  std::istringstream(text.value_or("0")) >> available;  // in KiB
  available *= 1024;
  one.found = fmt::format("{}, {} free", mib(total), mib(available));
  one.details = {{"total_bytes", total}, {"available_bytes", available}};
  return one;
}

std::vector<Capability> check_interfaces() {
  std::vector<Capability> all;
  for (const metrics::Interface& interface : metrics::read_interfaces()) {
    // Interfaces that are down and have no address are of no use to anybody.
    if (!interface.up && interface.addresses.empty()) continue;
    Capability one;
    one.name = "interface";
    std::string addresses;
    for (const std::string& address : interface.addresses) {
      addresses += (addresses.empty() ? "" : ", ") + address;
    }
    const auto speed = interface.bits_per_second;
    one.found = fmt::format(
        "{}: {}, {}, {}", interface.name, addresses.empty() ? "no address" : addresses,
        interface.up ? "up" : "down", speed ? rate(*speed) : std::string("speed not known"));
    if (!interface.up) {
      one.finding = Finding::note;
      one.remedy = fmt::format("ip link set {} up", interface.name);
    }
    one.details = {{"name", interface.name},
                   {"addresses", interface.addresses},
                   {"up", interface.up},
                   {"bits_per_second", speed ? nlohmann::json(*speed) : nlohmann::json()}};
    all.push_back(std::move(one));
  }
  return all;
}

Capability check_rdma(const std::vector<metrics::RdmaDevice>& devices) {
  Capability one;
  one.name = "rdma";
  one.details["devices"] = nlohmann::json::array();
  bool real = false;
  for (const metrics::RdmaDevice& device : devices) {
    if (!one.found.empty()) one.found += "; ";
    one.found += fmt::format("{}: {}{}, {}, {}", device.name, device.link_layer,
                             device.software ? " in software" : "", device.rate, device.state);
    real |= !device.software;
    one.details["devices"].push_back({{"name", device.name},
                                      {"state", device.state},
                                      {"rate", device.rate},
                                      {"link_layer", device.link_layer},
                                      {"software", device.software}});
  }
  if (devices.empty()) {
    one.finding = Finding::missing;
    one.found = "no RDMA device";
    one.remedy =
        "an InfiniBand or RoCE adapter, and apt install rdma-core ibverbs-providers; without one "
        "only software providers carry RDMA's calls";
  } else if (!real) {
    one.finding = Finding::note;
    one.remedy = "these emulate RDMA over an ordinary interface: right results, not RDMA's speed";
  }
  return one;
}

// Providers of libfabric whose transfers are done by an adapter.
bool is_hardware(const std::string& provider) {
  static const std::set<std::string> hardware = {"verbs", "psm2", "psm3", "opx",
                                                 "efa",   "cxi",  "gni",  "usnic"};
  return hardware.contains(provider.substr(0, provider.find(';')));
}

Capability check_libfabric(const Variables& variables,
                           const std::vector<metrics::RdmaDevice>& devices) {
  Capability one;
  one.name = "libfabric";
  const auto version = metrics::libfabric_version();
  if (!version) {
    one.finding = Finding::missing;
    one.found = "libfabric.so.1 cannot be loaded";
    one.remedy = "apt install libfabric1 libfabric-bin";
    return one;
  }
  one.details["version"] = *version;
  const auto tool = find_program("fi_info", variables);
  const auto listing = tool ? output_of({*tool}, kDevicePatience)
                            : base::Result<std::string>(
                                  base::fail(base::ErrorKind::not_found, "there is no fi_info"));
  if (!listing) {
    one.finding = Finding::note;
    one.found =
        fmt::format("{}; its providers are not known: {}", *version, listing.error().message);
    one.remedy = "apt install libfabric-bin";
    return one;
  }
  std::set<std::string> names;
  std::istringstream lines(*listing);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("provider: ")) names.insert(line.substr(10));
  }
  const bool real_device = std::any_of(devices.begin(), devices.end(),
                                       [](const auto& device) { return !device.software; });
  std::string real;
  std::string software;
  one.details["providers"] = nlohmann::json::array();
  for (const std::string& name : names) {
    // verbs may stand on a device that is itself software.
    const bool hardware = is_hardware(name) && (real_device || !name.starts_with("verbs"));
    std::string& list = hardware ? real : software;
    list += (list.empty() ? "" : " ") + name;
    one.details["providers"].push_back({{"name", name}, {"hardware", hardware}});
  }
  one.found = fmt::format("{}; real RDMA: {}; software: {}", *version, real.empty() ? "none" : real,
                          software.empty() ? "none" : software);
  return one;
}

Capability check_gpus() {
  const metrics::Gpus gpus = metrics::read_gpus();
  Capability one;
  one.name = "gpu";
  one.details = {{"models", gpus.models},
                 {"driver", gpus.driver ? nlohmann::json(*gpus.driver) : nlohmann::json()}};
  if (gpus.models.empty()) {
    one.finding = Finding::missing;
    one.found = gpus.why_none;
    one.remedy =
        "an NVIDIA GPU with its driver (nvidia-smi shows it), and a CUDA build of libtorch";
    return one;
  }
  std::map<std::string, int> counts;
  for (const std::string& model : gpus.models) ++counts[model];
  for (const auto& [model, count] : counts) {
    one.found += fmt::format("{}{} x {}", one.found.empty() ? "" : ", ", count, model);
  }
  one.found += fmt::format(", driver {} (unverified on a GPU: `make check-gpu` verifies)",
                           gpus.driver.value_or("not known"));
  return one;
}

}  // namespace

std::vector<Capability> check_hardware(const Variables& variables) {
  const metrics::Environment here = metrics::read_environment();
  const auto devices = metrics::read_rdma_devices();
  std::vector<Capability> all;
  all.push_back(check_processor(here));
  all.push_back(check_memory(here));
  for (Capability& interface : check_interfaces()) all.push_back(std::move(interface));
  all.push_back(check_rdma(devices));
  all.push_back(check_libfabric(variables, devices));
  all.push_back(check_gpus());
  return all;
}

}  // namespace dlobd::app
