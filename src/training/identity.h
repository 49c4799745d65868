// What names a run: to the ranks that join it, and to the checkpoints it leaves.
#pragma once

#include <cstdint>
#include <string>

#include "cluster/membership.h"
#include "training/config.h"

namespace dlobd::training {

// The version of this program.
std::string version();

// What a rank of this job shows at the rendezvous.
cluster::JobIdentity job_identity(const Config& config, std::string token);

// What all ranks must agree on, as base/settings.h has it: what is recorded, and what else is
// collective. A host's own share of its cores is its own matter.
std::string settings(const Config& config);

// Of these, what decides the trajectory: a run is resumed with the same. How long it lasts, where
// and by what it is computed may change.
std::string identity_of(const Config& config);

// "<folder>/caffeonspark-lenet-5e3a9c10-step-000938.ckpt"; the digits are of the identity, so that
// runs of other settings may share a folder.
std::string checkpoint_path(const std::string& folder, const Config& config, std::uint64_t step);

}  // namespace dlobd::training
