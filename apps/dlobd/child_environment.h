// The environment of the programs that this one starts.
#pragma once

#include <string>
#include <vector>

namespace dlobd::app {

// This process's own, with `changes` ("NAME=value") that replace or join its entries.
std::vector<std::string> child_environment(const std::vector<std::string>& changes);

}  // namespace dlobd::app
