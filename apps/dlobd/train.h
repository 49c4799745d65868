// `dlobd train`: one run, from the command line to its record.
#pragma once

#include <CLI/CLI.hpp>

#include "launch_environment.h"

namespace dlobd::app {

// Declares the verb; its run sets `status`. `environment` is the process's own, and outlives `app`.
void add_train(CLI::App& app, int& status, const Environment& environment);

}  // namespace dlobd::app
