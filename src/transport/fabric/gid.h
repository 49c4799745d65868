// The IPv4 address behind an entry of an RDMA device's table of GIDs (RoCE maps one into the
// other). libfabric's verbs endpoints take their GID from the address that they are bound to.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace dlobd::transport::fabric {

// "0000:0000:0000:0000:0000:ffff:0a4d:0001" -> "10.77.0.1"; empty if no IPv4 address is mapped in
// it.
std::string mapped_address(std::string_view gid);

// not_found if there is no such entry; invalid_argument if no address can be told from it. `root`
// is
// "/" but in tests.
base::Result<std::string> address_of_gid(const std::string& device, int port, int index,
                                         const std::string& root = "/");

}  // namespace dlobd::transport::fabric
