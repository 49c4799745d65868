// The providers of libfabric on this host, which of them are RDMA, and the choice of one.
//
// Never falls back: RDMA asked for and not to be had is an error that says what is there; software
// stand-ins (shm, tcp;ofi_rxm) are taken by name only. Milliseconds; any thread. In a build without
// libfabric the list is empty and choose() says so.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dlobd::transport::fabric {

struct Provider {
  std::string name;    // in full: "verbs;ofi_rxm"
  std::string domain;  // the device: "mlx5_0"
  std::string fabric;
  bool software = false;

  friend bool operator==(const Provider&, const Provider&) = default;
};

// This build can open providers at all.
bool built_in();
// Version of libfabric that runs, "1.17"; empty in a build without it.
std::string library_version();
// Those that can carry an endpoint (reliable datagrams, messages and one-sided writes), refused
// ones among them.
std::vector<Provider> list();

// The full name of what the user writes: "verbs" is "verbs;ofi_rxm".
std::string full_name(std::string_view asked);
// Not an adapter's, whatever the device.
bool is_software(std::string_view name);
// "rdma(shm)": how figures name it.
std::string label(std::string_view name);
// The full name to open: of `asked`, or of the host's real RDMA if that is empty. invalid_argument
// for one that is refused or unknown, unavailable for one that this host lacks. `there` is list()
// but in tests.
base::Result<std::string> choose(std::string_view asked, const std::vector<Provider>& there);
base::Result<std::string> choose(std::string_view asked);

}  // namespace dlobd::transport::fabric
