// The bytes that a port has carried by its own counters, which know nothing of this program:
// whether what a run says it sent went where it says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dlobd::metrics {

struct RunRecord;

// Since the port came up.
struct PortBytes {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};
// What a port has carried between two readings. Nothing: its counters went back, so they have been
// reset, or overrun, in between.
std::optional<PortBytes> carried(const PortBytes& before, const PortBytes& now);

// Of a network interface ("eth0"); of a port, from 1, of an RDMA device ("mlx5_0"). Nothing: it is
// not there, does not count (Soft-RoCE does not), or stands at a counter's maximum, where those of
// RDMA devices stay. `root` is "/" but in tests.
std::optional<PortBytes> interface_bytes(const std::string& interface,
                                         const std::string& root = "/");
std::optional<PortBytes> device_bytes(const std::string& device, int port,
                                      const std::string& root = "/");

// One line, if a rank's port carried less than the rank sent: then the bytes took another way. Only
// ranks that have their host to themselves are judged, for within a host the kernel and the
// adapters take short cuts that no port counts.
std::optional<std::string> other_way(const RunRecord& record);

}  // namespace dlobd::metrics
