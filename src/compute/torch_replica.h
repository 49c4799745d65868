// The Replica that computes by libtorch: the plug-in's TorchModel on a Worker, bound to an arena.
// Threads: as Replica.
#pragma once

#include <memory>

#include "base/loop.h"
#include "base/result.h"
#include "compute/model.h"
#include "compute/plugin.h"
#include "compute/replica.h"
#include "compute/worker.h"

namespace dlobd::compute {

// `plugin` may go after the call. unavailable: the device is not there.
base::Result<std::unique_ptr<Replica>> make_torch_replica(base::Loop& loop,
                                                          std::unique_ptr<Worker> worker,
                                                          const TorchPlugin& plugin,
                                                          const Model& model);

}  // namespace dlobd::compute
