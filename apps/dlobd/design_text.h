// A stack's design from the words of --stack, --behaviour and --defect.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "stacks/design.h"

namespace dlobd::app {

// `defects`: "NAME=faithful" or "NAME=fixed" each. invalid_argument with the nearest name.
base::Result<stacks::Design> parse_design(const std::string& stack,
                                          const std::optional<std::string>& behaviour,
                                          const std::vector<std::string>& defects);

}  // namespace dlobd::app
