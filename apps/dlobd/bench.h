// `dlobd bench`: how fast the parts are on this host, against their bounds, in interleaved rounds.
#pragma once

#include <CLI/CLI.hpp>

namespace dlobd::app {

void add_bench(CLI::App& app, int& status);

}  // namespace dlobd::app
