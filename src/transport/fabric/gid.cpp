#include "transport/fabric/gid.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <array>

#include "metrics/files.h"

namespace dlobd::transport::fabric {

std::string mapped_address(std::string_view gid) {
  in6_addr address{};
  if (::inet_pton(AF_INET6, std::string(gid).c_str(), &address) != 1 ||
      !IN6_IS_ADDR_V4MAPPED(&address)) {
    return {};
  }
  return fmt::format("{}.{}.{}.{}", address.s6_addr[12], address.s6_addr[13], address.s6_addr[14],
                     address.s6_addr[15]);
}

base::Result<std::string> address_of_gid(const std::string& device, int port, int index,
                                         const std::string& root) {
  if (device.empty()) {
    return base::fail(
        base::ErrorKind::invalid_argument,
        fmt::format("a GID is counted within a device's table: name the device of GID "
                    "{}",
                    index));
  }
  const std::string file = fmt::format("{}/sys/class/infiniband/{}/ports/{}/gids/{}",
                                       root == "/" ? "" : root, device, port, index);
  const auto text = metrics::read_text(file);
  if (!text) {
    return base::fail(base::ErrorKind::not_found,
                      fmt::format("an RDMA device has no such GID: device {}, port {}, GID {} ({})",
                                  device, port, index, file));
  }
  const std::string gid(metrics::trim(*text));
  std::string address = mapped_address(gid);
  if (address.empty()) {
    return base::fail(
        base::ErrorKind::invalid_argument,
        fmt::format("a GID names no IPv4 address, name the interface's address instead: device {}, "
                    "port {}, GID {}: {}",
                    device, port, index, gid));
  }
  return address;
}

}  // namespace dlobd::transport::fabric
