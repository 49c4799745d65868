// How many seeds a test in virtual time tries. A sanitizer makes each about fifty times slower and
// looks for what any seed shows: there a dozen of them run at most.
#pragma once

#include <algorithm>
#include <cstdint>

namespace dlobd {

constexpr std::uint64_t seeds(std::uint64_t all) {
#ifdef DLOBD_SANITIZED
  return std::clamp<std::uint64_t>(all / 40, 1, 12);
#else
  return all;
#endif
}

}  // namespace dlobd
