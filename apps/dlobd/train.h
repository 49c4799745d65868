// `dlobd train`: one run, from the command line to its record.
#pragma once

#include <CLI/CLI.hpp>

namespace dlobd::app {

// Declares the verb; its run sets `status`.
void add_train(CLI::App& app, int& status);

}  // namespace dlobd::app
