#include "metrics/devices.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>

#include "metrics/files.h"

namespace dlobd::metrics {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string line_of(const fs::path& file) {
  return std::string(trim(read_text(file.string()).value_or("")));
}

std::string address_text(const sockaddr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = nullptr;
  if (address.sa_family == AF_INET) {
    bytes = &reinterpret_cast<const sockaddr_in&>(address).sin_addr;
  } else if (address.sa_family == AF_INET6) {
    bytes = &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  }
  if (bytes == nullptr ||
      inet_ntop(address.sa_family, bytes, text.data(), text.size()) == nullptr) {
    return {};
  }
  return text.data();
}

// The driver's library, where the process file system does not show the driver (some containers).
Gpus gpus_by_nvml() {
  Gpus gpus;
  const std::unique_ptr<void, int (*)(void*)> library(dlopen("libnvidia-ml.so.1", RTLD_NOW),
                                                      &dlclose);
  if (!library) {
    gpus.why_none = "the NVIDIA device files are there, but libnvidia-ml.so.1 cannot be loaded";
    return gpus;
  }
  using Call = int (*)();
  using Count = int (*)(unsigned*);
  using Handle = int (*)(unsigned, void**);
  using Name = int (*)(void*, char*, unsigned);
  using Version = int (*)(char*, unsigned);
  const auto init = reinterpret_cast<Call>(dlsym(library.get(), "nvmlInit_v2"));
  const auto shutdown = reinterpret_cast<Call>(dlsym(library.get(), "nvmlShutdown"));
  const auto count = reinterpret_cast<Count>(dlsym(library.get(), "nvmlDeviceGetCount_v2"));
  const auto handle =
      reinterpret_cast<Handle>(dlsym(library.get(), "nvmlDeviceGetHandleByIndex_v2"));
  const auto name = reinterpret_cast<Name>(dlsym(library.get(), "nvmlDeviceGetName"));
  const auto version =
      reinterpret_cast<Version>(dlsym(library.get(), "nvmlSystemGetDriverVersion"));
  if (!init || !shutdown || !count || !handle || !name || !version) {
    gpus.why_none = "libnvidia-ml.so.1 lacks calls that every version since 2012 has";
    return gpus;
  }
  if (const int rc = init(); rc != 0) {
    gpus.why_none = fmt::format("the NVIDIA driver does not answer: nvmlInit says {}", rc);
    return gpus;
  }
  std::array<char, 96> text{};
  if (version(text.data(), text.size()) == 0) gpus.driver = text.data();
  unsigned found = 0;
  count(&found);
  for (unsigned i = 0; i < found; ++i) {
    void* device = nullptr;
    if (handle(i, &device) == 0 && name(device, text.data(), text.size()) == 0) {
      gpus.models.emplace_back(text.data());
    }
  }
  shutdown();
  if (gpus.models.empty()) gpus.why_none = "the NVIDIA driver lists no GPU";
  return gpus;
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug ..." -> "535.104.05"
std::optional<std::string> driver_version(std::string_view text) {
  text = text.substr(0, text.find('\n'));
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = text.find_first_of(" \t", at);
    if (end == std::string_view::npos) end = text.size();
    const std::string_view word = text.substr(at, end - at);
    if (word.find('.') != std::string_view::npos &&
        word.find_first_not_of("0123456789.") == std::string_view::npos) {
      return std::string(word);
    }
    at = end + 1;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> link_speed(const std::string& interface, const std::string& root) {
  const std::string text = line_of(fs::path(root) / "sys/class/net" / interface / "speed");
  std::int64_t megabits = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), megabits);
  if (parsed.ec != std::errc() || megabits <= 0) return std::nullopt;
  return megabits * 1'000'000;
}

std::vector<Interface> read_interfaces(const std::string& root) {
  std::map<std::string, Interface> by_name;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  for (const ifaddrs* item = list; item != nullptr; item = item->ifa_next) {
    Interface& interface = by_name[item->ifa_name];
    interface.name = item->ifa_name;
    interface.up = (item->ifa_flags & IFF_UP) != 0 && (item->ifa_flags & IFF_RUNNING) != 0;
    interface.loopback = (item->ifa_flags & IFF_LOOPBACK) != 0;
    if (item->ifa_addr == nullptr) continue;
    if (std::string text = address_text(*item->ifa_addr); !text.empty()) {
      interface.addresses.push_back(std::move(text));
    }
  }
  freeifaddrs(list);
  std::vector<Interface> all;
  for (auto& [name, interface] : by_name) {
    interface.bits_per_second = link_speed(name, root);
    all.push_back(std::move(interface));
  }
  return all;
}

std::vector<RdmaDevice> read_rdma_devices(const std::string& root) {
  const fs::path folder = fs::path(root) / "sys/class/infiniband";
  std::vector<RdmaDevice> all;
  for (const std::string& name : entries(folder)) {
    RdmaDevice device;
    device.name = name;
    // Software devices hang on no bus: their own folder has no "device" that names a driver.
    std::error_code error;
    device.software = !fs::exists(folder / name / "device/driver", error);
    const fs::path ports = folder / name / "ports";
    if (const auto port_names = entries(ports); !port_names.empty()) {
      const fs::path port = ports / port_names.front();
      device.state = line_of(port / "state");  // "4: ACTIVE"
      if (const std::size_t colon = device.state.find(": "); colon != std::string::npos) {
        device.state.erase(0, colon + 2);
      }
      device.rate = line_of(port / "rate");
      device.link_layer = line_of(port / "link_layer");
    }
    all.push_back(std::move(device));
  }
  return all;
}

Gpus read_gpus(const std::string& root) {
  Gpus gpus;
  const fs::path driver = fs::path(root) / "proc/driver/nvidia";
  for (const std::string& name : entries(driver / "gpus")) {
    const auto text = read_text((driver / "gpus" / name / "information").string());
    gpus.models.push_back(field(text.value_or(""), "Model").value_or("an NVIDIA GPU at " + name));
  }
  gpus.driver = driver_version(read_text((driver / "version").string()).value_or(""));
  if (!gpus.models.empty()) return gpus;
  std::error_code error;
  if (fs::exists(fs::path(root) / "dev/nvidiactl", error)) return gpus_by_nvml();
  gpus.why_none = gpus.driver ? "the NVIDIA driver lists no GPU" : "no NVIDIA driver is loaded";
  return gpus;
}

std::optional<std::string> libfabric_version() {
  const std::unique_ptr<void, int (*)(void*)> library(dlopen("libfabric.so.1", RTLD_NOW), &dlclose);
  if (!library) return std::nullopt;
  const auto version = reinterpret_cast<std::uint32_t (*)()>(dlsym(library.get(), "fi_version"));
  if (version == nullptr) return std::nullopt;
  const std::uint32_t packed = version();
  return fmt::format("{}.{}", packed >> 16, packed & 0xffff);
}

}  // namespace dlobd::metrics
