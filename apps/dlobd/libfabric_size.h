// How large libfabric is told that a job is. Its layer over connected adapters (ofi_rxm, which
// carries verbs) makes each endpoint's completion queue for that many peers, 256 unless told: on
// small hosts, and in Soft-RoCE, that exhausts memory.
//
// libfabric reads its environment once, at its first call; so this one comes before it. What the
// user has set stays. The environment is the process's: call it while there is one thread.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "transport/fabric/providers.h"

namespace dlobd::app {

inline constexpr const char* kLibfabricSize = "FI_UNIVERSE_SIZE";

// For `provider` as the user wrote it (empty: this host's own RDMA, which may be verbs) and a job
// of `world_size`; none where it does not matter.
inline std::optional<int> libfabric_size(std::string_view provider, int world_size) {
  if (!provider.empty() && transport::fabric::full_name(provider) != "verbs;ofi_rxm") return {};
  return std::max(16, world_size);
}

inline void size_libfabric(std::string_view provider, int world_size) {
  if (const auto size = libfabric_size(provider, world_size)) {
    ::setenv(kLibfabricSize, std::to_string(*size).c_str(), 0);
  }
}

}  // namespace dlobd::app
