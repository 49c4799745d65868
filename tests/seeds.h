// How much a test tries. A sanitizer makes each step about fifty times slower and looks for what
// any of them shows: there few seeds run, and where both clocks run the same code, one size in real
// time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace dlobd {

#ifdef DLOBD_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

constexpr std::uint64_t seeds(std::uint64_t all) {
  return kSanitized ? std::clamp<std::uint64_t>(all / 40, 1, 6) : all;
}

// Of jobs.
inline std::vector<int> sizes(std::vector<int> all, std::vector<int> sanitized) {
  return kSanitized ? std::move(sanitized) : std::move(all);
}

}  // namespace dlobd
