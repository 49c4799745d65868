// The choice of a provider, from names alone.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "transport/fabric/providers.h"

namespace dlobd::transport::fabric {

namespace {

// In the order of preference.
constexpr std::array<std::string_view, 6> kAdapters = {"verbs;ofi_rxm", "efa",  "opx",
                                                       "psm3",          "psm2", "cxi"};
constexpr std::array<std::string_view, 2> kStandIns = {"shm", "tcp;ofi_rxm"};

struct Refusal {
  std::string_view name;
  std::string_view why;
};
constexpr std::array<Refusal, 6> kRefusals = {{
    {"sockets", "it is no longer maintained, and its endpoints hang"},
    {"udp", "its datagrams get lost and it has no one-sided writes"},
    {"udp;ofi_rxd", "one-sided writes over lost datagrams stall"},
    {"verbs;ofi_rxd", "one-sided writes over datagrams are emulated: take verbs"},
    {"tcp",
     "it joins single connections only: the stand-in over TCP is tcp;ofi_rxm, the real "
     "sockets are network tcp"},
    {"net", "it is experimental in libfabric: the stand-in over TCP is tcp;ofi_rxm"},
}};

std::string names_of(const std::vector<Provider>& there, bool software) {
  std::vector<std::string> names;
  for (const Provider& one : there) {
    const bool known = std::find(kAdapters.begin(), kAdapters.end(), one.name) != kAdapters.end() ||
                       std::find(kStandIns.begin(), kStandIns.end(), one.name) != kStandIns.end();
    if (!known || one.software != software) continue;
    const std::string text = one.domain.empty() || one.domain == one.name
                                 ? one.name
                                 : fmt::format("{} on {}", one.name, one.domain);
    if (std::find(names.begin(), names.end(), text) == names.end()) names.push_back(text);
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

std::string what_is_there(const std::vector<Provider>& there) {
  if (!built_in()) return "this build has no libfabric (configure it with DLOBD_FABRIC=ON)";
  return fmt::format("libfabric {} offers real RDMA: {}; software: {}", library_version(),
                     names_of(there, false), names_of(there, true));
}

constexpr std::string_view kAllow =
    "a software stand-in must be named: --provider shm (ranks on one host) or --provider "
    "'tcp;ofi_rxm'";

}  // namespace

std::string full_name(std::string_view asked) {
  return asked == "verbs" ? "verbs;ofi_rxm" : std::string(asked);
}

bool is_software(std::string_view name) {
  return std::find(kAdapters.begin(), kAdapters.end(), full_name(name)) == kAdapters.end();
}

std::string label(std::string_view name) {
  return fmt::format("rdma({})", full_name(name));
}

base::Result<std::string> choose(std::string_view asked, const std::vector<Provider>& there) {
  const std::string name = full_name(asked);
  if (asked.empty()) {
    for (const std::string_view preferred : kAdapters) {
      for (const Provider& one : there) {
        if (one.name == preferred && !one.software) return one.name;
      }
    }
    return base::fail(base::ErrorKind::unavailable,
                      fmt::format("RDMA is asked for, and this host has none: {}: {}", kAllow,
                                  what_is_there(there)));
  }
  for (const Refusal& refusal : kRefusals) {
    if (name == refusal.name) {
      return base::fail(base::ErrorKind::invalid_argument,
                        fmt::format("this RDMA provider is refused: {}: {}", name, refusal.why));
    }
  }
  const bool known = std::find(kAdapters.begin(), kAdapters.end(), name) != kAdapters.end() ||
                     std::find(kStandIns.begin(), kStandIns.end(), name) != kStandIns.end();
  if (!known) {
    return base::fail(base::ErrorKind::invalid_argument,
                      fmt::format("no such RDMA provider: {}: one of {}; stand-ins: {}", name,
                                  fmt::join(kAdapters, ", "), fmt::join(kStandIns, ", ")));
  }
  const bool offered = std::any_of(there.begin(), there.end(),
                                   [&name](const Provider& one) { return one.name == name; });
  if (offered) return name;
  return base::fail(base::ErrorKind::unavailable,
                    fmt::format("this host does not have the RDMA provider that is asked for: {}: "
                                "{}",
                                name, what_is_there(there)));
}

}  // namespace dlobd::transport::fabric
