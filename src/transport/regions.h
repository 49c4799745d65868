// Registered memory by id: one's own (spans) and a peer's (sizes, from its descriptor), and the one
// check that a write must pass on both sides. A write outside a region is an error, never a memory
// fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "base/result.h"
#include "transport/endpoint.h"

namespace dlobd::transport {

using Regions = std::map<RegionId, std::span<std::byte>>;

RegionSizes sizes_of(const Regions& regions);

// Does [offset, offset + bytes) lie within a region of `size` bytes? Safe against overflow.
inline bool fits(std::uint64_t size, std::uint64_t offset, std::uint64_t bytes) {
  return offset <= size && bytes <= size - offset;
}

// invalid_argument when the peer has no such region, or when the write does not fit into it.
base::Result<void> check_write(const RegionSizes& peer, const Write& write);

}  // namespace dlobd::transport
