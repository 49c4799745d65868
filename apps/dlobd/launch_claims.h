// Which launcher's word counts. Each one that is around a process claims a rank and a number of
// ranks for it, under names of its own; they nest, and the nearest to the process is believed.
// Errors are invalid_argument: launchers that disagree about the same processes, half a pair,
// numbers that are none.
#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "launch_environment.h"

namespace dlobd::app {

enum class Launcher { slurm, open_mpi, pmi, torchrun };

struct Claim {
  Launcher launcher = Launcher::slurm;
  int rank = 0;
  int size = 1;
  std::optional<int> local_rank;
  std::optional<int> local_size;  // Slurm's is in a list: not here
};

// nullopt: no launcher is around.
base::Result<std::optional<Claim>> innermost_claim(const Environment& environment);

// The whole number, not negative, that a variable has; nullopt where it is not set or empty.
base::Result<std::optional<int>> number_of(const Environment& environment, std::string_view name);

}  // namespace dlobd::app
