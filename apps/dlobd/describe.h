// `dlobd describe`: a design in a page.
#pragma once

#include <CLI/CLI.hpp>

namespace dlobd::app {

void add_describe(CLI::App& app, int& status);

}  // namespace dlobd::app
