// Secrets of a job, compared in a time that does not depend on where they differ.
#pragma once

#include <cstddef>
#include <string_view>

namespace dlobd::base {

[[nodiscard]] inline bool same_secret(std::string_view ours, std::string_view theirs) {
  unsigned difference = ours.size() == theirs.size() ? 0 : 1;
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    const char mine = ours.empty() ? '\0' : ours[i % ours.size()];
    difference |= static_cast<unsigned>(static_cast<unsigned char>(mine ^ theirs[i]));
  }
  return difference == 0;
}

}  // namespace dlobd::base
