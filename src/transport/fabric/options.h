// How an endpoint over libfabric is opened and behaves. Belongs to nobody: a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"

namespace dlobd::transport::fabric {

// Who moves what has been posted. unspecified: as the provider does by itself.
enum class ProgressMode { unspecified, manual, automatic };

struct Options {
  // libfabric's name: verbs (short for verbs;ofi_rxm), efa, psm3, ...; shm and tcp;ofi_rxm,
  // software stand-ins, by name only. Empty: the real RDMA of this host, an error if there is none.
  std::string provider;
  std::string device;   // libfabric's domain: mlx5_0, rxe0, eth0; empty: the first that fits
  std::string address;  // of the interface to use, "10.0.0.2"; empty: the device's first
  // With `device`: the port whose table of GIDs gid_index counts in. The GID decides the address.
  int port = 1;
  std::optional<int> gid_index;

  std::string token;  // the job's secret, at most kMaxTokenBytes; strangers do not know it
  ProgressMode progress = ProgressMode::manual;

  // Receive buffers that each peer may fill before it hears of free ones; 0: as many as the
  // provider has room for, at most 64.
  std::uint32_t credits_per_peer = 0;
  // A write goes out in pieces of at most so many bytes (and of the provider's largest message).
  std::size_t fragment_bytes = 16U << 20;
  // Lock registered memory also for a provider that does not, so that a stand-in meets the limits
  // (RLIMIT_MEMLOCK) that an adapter would.
  bool pin_memory = false;

  // Idle: polls so long, letting others run in between, then sleeps. Where there is no descriptor
  // to sleep on and something posted is not through, it polls a millisecond at least.
  base::Duration spin = std::chrono::microseconds(50);
  // The longest sleep where the provider has nothing to wait for.
  base::Duration nap = std::chrono::microseconds(200);
  bool wait_descriptor = true;  // sleep on the provider's descriptor where it has one

  // Bytes that are posted and make no progress for so long break the link.
  base::Duration peer_timeout = std::chrono::seconds(10);
  base::Duration connect_timeout = std::chrono::seconds(30);
};

}  // namespace dlobd::transport::fabric
