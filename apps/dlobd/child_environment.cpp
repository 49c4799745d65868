#include "child_environment.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

namespace dlobd::app {

std::vector<std::string> child_environment(const std::vector<std::string>& changes) {
  const auto name_of = [](std::string_view entry) { return entry.substr(0, entry.find('=')); };
  std::vector<std::string> all = changes;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const bool replaced = std::any_of(changes.begin(), changes.end(), [&](const auto& change) {
      return name_of(change) == name_of(*entry);
    });
    if (!replaced) all.emplace_back(*entry);
  }
  return all;
}

}  // namespace dlobd::app
