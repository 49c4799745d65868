#include "design_text.h"

#include <fmt/format.h>

#include <map>

namespace dlobd::app {

base::Result<stacks::Design> parse_design(const std::string& stack,
                                          const std::optional<std::string>& behaviour,
                                          const std::vector<std::string>& defects) {
  std::map<std::string, std::string> chosen;
  for (const auto& text : defects) {
    const auto equals = text.find('=');
    if (equals == std::string::npos) {
      return base::fail(base::ErrorKind::invalid_argument,
                        fmt::format("--defect takes NAME=faithful or NAME=fixed: {}", text));
    }
    chosen[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return stacks::make_design(stack, behaviour, chosen);
}

}  // namespace dlobd::app
