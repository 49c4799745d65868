#include "transport/regions.h"

#include <fmt/format.h>

namespace dlobd::transport {

RegionSizes sizes_of(const Regions& regions) {
  RegionSizes sizes;
  for (const auto& [id, memory] : regions) sizes.emplace(id, memory.size());
  return sizes;
}

base::Result<void> check_write(const RegionSizes& peer, const Write& write) {
  const auto region = peer.find(write.region);
  if (region == peer.end()) {
    return base::fail(base::ErrorKind::invalid_argument,
                      fmt::format("write to a region that the peer has not registered: rank {}, "
                                  "region {}",
                                  write.peer, write.region));
  }
  if (!fits(region->second, write.offset_bytes, write.bytes.size())) {
    return base::fail(
        base::ErrorKind::invalid_argument,
        fmt::format("write outside the peer's region: rank {}, region {}, bytes {} to "
                    "{} of {}",
                    write.peer, write.region, write.offset_bytes,
                    write.offset_bytes + write.bytes.size(), region->second));
  }
  return {};
}

}  // namespace dlobd::transport
