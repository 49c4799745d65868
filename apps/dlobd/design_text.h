// The words that choose a stack's design: --stack, --behaviour, --defect, and what single stacks
// take beyond them (--ps, ...). The same for every verb that takes a design.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "stacks/design.h"

namespace dlobd::app {

struct DesignWords {
  std::string stack;
  std::optional<std::string> behaviour;
  std::optional<std::string> wire_element;
  std::vector<std::string> defects;            // NAME=faithful|fixed
  std::map<std::string, std::string> options;  // of stacks::option_names(); empty: not given
};

// `words` outlives the parsing.
void add_design_options(CLI::App& app, DesignWords& words);

// `rdma`: the network does one-sided writes. invalid_argument with the nearest name.
base::Result<stacks::Design> parse_design(const DesignWords& words, bool rdma);

}  // namespace dlobd::app
