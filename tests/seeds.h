// How many seeds a test in virtual time tries. A sanitizer makes each about fifty times slower and
// looks for what any seed shows: there one in forty of them run.
#pragma once

#include <algorithm>
#include <cstdint>

namespace dlobd {

constexpr std::uint64_t seeds(std::uint64_t all) {
#ifdef DLOBD_SANITIZED
  return std::max<std::uint64_t>(1, all / 40);
#else
  return all;
#endif
}

}  // namespace dlobd
