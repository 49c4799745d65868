// The network interfaces of this host, by name: "lo", "eth0", "ib0" (IP over InfiniBand).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace dlobd::transport::tcp {

// Its address, IPv4 if it has one. not_found lists the interfaces that are there.
base::Result<std::string> interface_address(std::string_view name);

// The address from which this host reaches `host_port` ("node1:7000"): by the kernel's routes;
// nothing is sent. not_found for a host that has no address.
base::Result<std::string> source_address(const std::string& host_port);

// The interface that has this address: for records of what was used.
std::optional<std::string> interface_of_address(std::string_view address);

}  // namespace dlobd::transport::tcp
