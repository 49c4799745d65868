// What a cluster's launcher tells each rank by its environment: Slurm's srun, Open MPI's mpirun,
// MPICH's mpiexec (any with PMI's variables), torchrun.
//
// launch_from() is a function of the variables alone. A launcher counts when it gives both a rank
// and a number of ranks. Launchers nest: torchrun in mpirun's or srun's tasks and mpirun in a Slurm
// job are usual, and the one nearest to the process is believed. Two that speak of the same
// processes and disagree are refused, as are numbers that are none and half a pair.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/result.h"

namespace dlobd::app {

using Environment = std::map<std::string, std::string, std::less<>>;

// Of "NAME=value" strings up to a null pointer: main's environment.
Environment environment_of(const char* const* variables);

// The value of a variable; empty where it is not set.
const std::string& value_of(const Environment& environment, std::string_view name);

struct Launch {
  std::string launcher;  // "srun", "mpirun (Open MPI)", "mpiexec (PMI)", "torchrun"
  int rank = 0;
  int world_size = 1;
  std::optional<int> local_rank;  // among the job's ranks on this host
  std::optional<int> local_size;  // how many those are
  // HOST:PORT, equal on all ranks, where rank 0 can listen. Empty where the launcher does not say
  // on which host rank 0 runs.
  std::string rendezvous;
  // Equal on all ranks of this job and different for another job; no secret. Empty where the
  // launcher gives nothing of the kind.
  std::string job;
};

// nullopt: no launcher has started this process. `pmi_server` is the process id at the other end of
// PMI_FD, where that is known: it tells MPICH's jobs on one host apart. Errors are
// invalid_argument.
base::Result<std::optional<Launch>> launch_from(const Environment& environment,
                                                std::optional<int> pmi_server = std::nullopt);

// The port that ranks agree upon without a word: by the job's name, from 20000 to 31999, below
// those that systems hand out by themselves.
int port_of_job(std::string_view job);

// A job token for ranks that were given none: at most 32 characters. Whoever can read the job's
// name can make it, so it keeps other jobs out and not other people.
std::string token_of_job(std::string_view job, std::string_view rendezvous);

}  // namespace dlobd::app
