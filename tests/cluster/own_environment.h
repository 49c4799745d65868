// For ranks that tests launch: what a sanitizer is told by it holds for them as well.
#pragma once

#include <unistd.h>

#include <string>
#include <vector>

namespace dlobd::cluster::testing {

inline std::vector<std::string> own_environment() {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
  return all;
}

}  // namespace dlobd::cluster::testing
