// Where a rank ran: the host's hardware and limits, and the libraries and links it used. Each field
// is what was found, or nothing with the reason in `unknown`. read_environment() fills what the
// host itself says (CPU, quota, memory, system, GPU and driver); who opened a library or a link
// fills the rest by set(). Reading is harmless and takes a few milliseconds; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace dlobd::metrics {

struct Environment {
  std::string host;
  // The host.
  std::optional<std::string> cpu_model;
  std::optional<std::int64_t> cores;    // online logical CPUs
  std::optional<double> quota;          // CPUs that the control group grants
  std::optional<std::string> affinity;  // CPUs this process may run on: "0-3,8"
  std::optional<std::int64_t> memory_bytes;
  std::optional<std::string> os_kernel;  // "Linux 6.1.0-18-amd64"
  std::optional<std::string> gpu;        // "NVIDIA H200"; several: joined by ", "
  std::optional<std::string> gpu_driver;
  // Filled by who uses them.
  std::optional<std::string> provider_used;  // full name: "verbs;ofi_rxm"
  std::optional<bool> software_rdma;
  std::optional<std::string> interface;
  std::optional<std::int64_t> link_speed;           // bits per second, as the driver says
  std::optional<std::string> libfabric;             // version
  std::optional<std::string> libtorch;              // version
  std::optional<std::string> onednn;                // version
  std::optional<std::string> blas;                  // "openblas 0.3.21"
  std::optional<std::string> blas_kernel;           // "SkylakeX"
  std::optional<std::string> blas_expected_kernel;  // the one that this CPU should have
  std::optional<std::string> blas_chosen_because;
  std::optional<std::string> cuda;
  std::optional<std::string> cudnn;
  // Field name -> why it is nothing.
  std::map<std::string, std::string> unknown;
};

// Keys are the names above; fields that are nothing are null.
nlohmann::json to_json(const Environment& environment);
// Unknown keys are ignored, missing ones are nothing. corrupt_data for a value of another type.
base::Result<Environment> environment_from_json(const nlohmann::json& json);

// `root` is "/" but in tests: where proc/ and sys/ are looked for.
Environment read_environment(const std::string& root = "/");

// CPUs that the control group (v1 or v2) grants this process; nothing: no limit.
std::optional<double> read_quota(const std::string& root = "/");

}  // namespace dlobd::metrics
