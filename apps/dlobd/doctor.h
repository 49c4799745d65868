// `dlobd doctor`: what this host can do, capability by capability, and what would bring what is
// missing.
#pragma once

#include <CLI/CLI.hpp>

namespace dlobd::app {

void add_doctor(CLI::App& app, int& status);

// Prints the table, or JSON. Exit status 0: a thing that is missing is no failure.
int doctor(bool json);

}  // namespace dlobd::app
