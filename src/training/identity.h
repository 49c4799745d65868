// What names a run: to the ranks that join it, and to the checkpoints it leaves.
#pragma once

#include <cstdint>
#include <string>

#include "cluster/membership.h"
#include "training/checkpoint.h"
#include "training/config.h"

namespace dlobd::training {

// The version of this program.
std::string version();

// What a rank of this job shows at the rendezvous.
cluster::JobIdentity job_identity(const Config& config, std::string token);

// A checkpoint with its identity filled and nothing else.
Checkpoint identity_of(const Config& config);

// "<folder>/caffeonspark-lenet-step-000938.ckpt"
std::string checkpoint_path(const std::string& folder, const Config& config, std::uint64_t step);

}  // namespace dlobd::training
