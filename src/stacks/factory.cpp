#include "base/check.h"
#include "exchange/allreduce.h"
#include "exchange/cos_shard_push.h"
#include "stacks/design.h"

namespace dlobd::stacks {

std::unique_ptr<exchange::Exchange> make_exchange(const Design& design, exchange::Context context) {
  switch (design.stack) {
    case Stack::caffeonspark: {
      exchange::CosDefects defects;
      defects.snapshot_ungathered = design.faithful("snapshot_ungathered");
      defects.momentum_own_slice = design.faithful("momentum_own_slice");
      defects.optimizer_full = design.faithful("optimizer_full");
      return std::make_unique<exchange::CosShardPush>(context, defects);
    }
    case Stack::allreduce: return std::make_unique<exchange::AllReduce>(context, design.all_reduce);
  }
  CHECK(false, "a stack without an exchange");
  return nullptr;
}

}  // namespace dlobd::stacks
