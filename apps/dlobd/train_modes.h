// The three ways in which `dlobd train` runs a job, once its configuration is resolved. Each gives
// the exit status.
#pragma once

#include "train_options.h"

namespace dlobd::app {

// All ranks as processes of this host; this process watches them and writes the record.
int train_local(const TrainOptions& options, const Resolved& resolved);

// One rank, in this process: started by train_local (--launched), or by the user on each host. In
// the second case rank 0 writes the record; where it is lost, the lowest survivor writes what it
// has.
int train_rank(const TrainOptions& options, const Resolved& resolved);

// All ranks in this process, in virtual time.
int train_simulated(const TrainOptions& options, const Resolved& resolved);

}  // namespace dlobd::app
