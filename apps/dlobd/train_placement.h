// Where this process stands in its job, when a cluster's launcher has started it: what the user did
// not say by --rank, --world-size and --rendezvous is taken from the environment, and a secret is
// made up for the job. What the user said is left alone.
#pragma once

#include "base/result.h"
#include "launch_environment.h"
#include "train_options.h"

namespace dlobd::app {

// Does nothing where no launcher is found, --launcher none was given, or the launcher has started
// one process alone, which trains as if it were typed. Errors are invalid_argument, one line each.
base::Result<void> place_by_environment(TrainOptions& options, const Environment& environment);

}  // namespace dlobd::app
