// The feed of one rank: its shard of the training part, and on rank 0 the test part, in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "batches/shard.h"
#include "batches/source.h"
#include "records/dataset.h"
#include "training/config.h"

namespace dlobd::training {

struct Feed {
  std::unique_ptr<batches::Source> train;
  std::unique_ptr<batches::Source> test;  // on other ranks than 0 it has no samples
};

// Reads; blocks. `plan` is what the ranks have agreed on. `read_ahead`: a thread prepares the next
// batches (in real time), or feeds them record by record where the design does so; without it each
// is made when it is asked for.
base::Result<Feed> open_feed(const records::Dataset& dataset, const Config& config, int rank,
                             const batches::EpochPlan& plan, bool read_ahead);

}  // namespace dlobd::training
