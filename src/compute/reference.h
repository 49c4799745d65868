// A replica in plain C++, without libtorch: for oracles, sanitizers and protocol tests. It computes
// models of fully connected and relu layers (softmax regression) with an exact gradient and a fixed
// order of every sum, so that equal inputs give equal bits on each run.
// Threads: as Replica.
#pragma once

#include <memory>

#include "base/loop.h"
#include "base/result.h"
#include "compute/model.h"
#include "compute/replica.h"
#include "compute/worker.h"

namespace dlobd::compute {

// unavailable: a model with layers that only libtorch computes.
base::Result<void> check_reference(const Model& model);
// The same error.
base::Result<std::unique_ptr<Replica>> make_reference(base::Loop& loop,
                                                      std::unique_ptr<Worker> worker,
                                                      const Model& model);

}  // namespace dlobd::compute
