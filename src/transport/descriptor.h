// What a rank tells its peers about its endpoint: where to reach it, and the sizes of its regions.
// A blob of bytes to everybody else. decode_descriptor() trusts nothing: corrupt_data when it is
// off.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "transport/message.h"

namespace dlobd::transport {

struct Descriptor {
  std::string address;     // of the network that carries it
  std::uint16_t port = 0;  // where there is one
  RegionSizes regions;

  friend bool operator==(const Descriptor&, const Descriptor&) = default;
};

std::vector<std::byte> encode(const Descriptor& descriptor);
base::Result<Descriptor> decode_descriptor(std::span<const std::byte> blob);

}  // namespace dlobd::transport
