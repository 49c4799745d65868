// The network interfaces, RDMA devices and GPUs of this host, as the kernel and the drivers list
// them. What is not there is an empty list. Milliseconds; any thread. `root` is "/" but in tests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dlobd::metrics {

struct Interface {
  std::string name;
  std::vector<std::string> addresses;  // "10.0.0.2", "fe80::1"
  bool up = false;
  bool loopback = false;
  std::optional<std::int64_t> bits_per_second;  // virtual interfaces mostly do not say
};
std::vector<Interface> read_interfaces(const std::string& root = "/");

// Bits per second of one interface; nothing if it is not there or does not say.
std::optional<std::int64_t> link_speed(const std::string& interface, const std::string& root = "/");

struct RdmaDevice {
  std::string name;        // "mlx5_0"
  std::string state;       // of its first port: "ACTIVE"
  std::string rate;        // "56 Gb/sec (4X FDR)"
  std::string link_layer;  // "InfiniBand", "Ethernet"
  bool software = false;   // rxe, siw: RDMA's calls over an ordinary interface
};
std::vector<RdmaDevice> read_rdma_devices(const std::string& root = "/");

struct Gpus {
  std::vector<std::string> models;
  std::optional<std::string> driver;  // "535.104.05"
  std::string why_none;               // where models is empty
};
// From /proc/driver/nvidia, else from the driver's own library if its device files are there.
Gpus read_gpus(const std::string& root = "/");

// Version of the libfabric that the loader finds ("1.17"); nothing: none.
std::optional<std::string> libfabric_version();

}  // namespace dlobd::metrics
