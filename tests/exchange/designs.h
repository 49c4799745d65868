// The designs that the suites of this folder run, by name.
#pragma once

#include <string>
#include <vector>

#include "exchange/group.h"

namespace dlobd::exchange::testing {

struct NamedDesign {
  std::string name;
  stacks::Design design;
  // In the suite of interleavings; fewer for one that differs from another in a detail.
  std::uint64_t interleavings = 2000;
};

inline stacks::Design cos_design(bool snapshot, bool momentum, bool optimizer) {
  const auto word = [](bool faithful) { return faithful ? "faithful" : "fixed"; };
  return design_of("caffeonspark", "",
                   {{"snapshot_ungathered", word(snapshot)},
                    {"momentum_own_slice", word(momentum)},
                    {"optimizer_full", word(optimizer)}});
}

// The variant for one-sided writes, all defects as they come but for those that are named.
inline stacks::Design cos_rdma_design(const std::vector<std::string>& fixed) {
  std::map<std::string, std::string> defects;
  for (const std::string& each : fixed) defects[each] = "fixed";
  return design_of("caffeonspark", "", defects, true);
}

// Segments are short, so that a small model's chunk is several messages.
inline stacks::Design allreduce_design(Algorithm algorithm, std::size_t bucket_bytes) {
  stacks::Design design = design_of("allreduce");
  design.all_reduce.bucket_bytes = bucket_bytes;
  design.all_reduce.collective.algorithm = algorithm;
  design.all_reduce.collective.segment_elements = 7;
  return design;
}

inline stacks::Design with_element(stacks::Design design, compute::WireElement element) {
  design.wire_element = element;
  return design;
}

// `small`: sections of a few elements, so that a small model has many, and two of each chunk.
inline stacks::Design tf_ring_design(bool single_pack, bool small) {
  stacks::Design design =
      design_of("tensorflowonspark", "", {{"single_pack", single_pack ? "faithful" : "fixed"}});
  design.tf_ring.pack_bytes = 96;
  if (small) {
    design.tf_ring.most_chunk_bytes = 16;
    design.tf_ring.alignment_bytes = 1;
  }
  return design;
}

inline stacks::Design bigdl_design(bool truncate, bool look_up, bool no_momentum) {
  const auto word = [](bool faithful) { return faithful ? "faithful" : "fixed"; };
  return design_of("bigdl", "",
                   {{"truncate_each_add", word(truncate)},
                    {"lookup_per_block", word(look_up)},
                    {"momentum_not_saved", word(no_momentum)}});
}

// Thresholds for stragglers from the second step on, taken anew in each; of so many passes some are
// always cut off, and now and then too many.
inline stacks::Design bigdl_drop_design(bool faithful) {
  stacks::Design design = bigdl_design(faithful, faithful, faithful);
  design.bigdl_drop.share = 0.5;
  design.bigdl_drop.most = 0.6;
  design.bigdl_drop.warm_up = 0;
  design.bigdl_drop.every = 1;
  return design;
}

inline stacks::Design tf_ps_design(int servers, TfPsOptions options, bool arrival_order = true) {
  stacks::Design design = design_of("tensorflowonspark_ps", "",
                                    {{"arrival_order", arrival_order ? "faithful" : "fixed"}});
  design.servers = servers;
  design.tf_ps = options;
  design.tf_ps.keep_log = true;
  return design;
}

// Variables of up to nine elements are small.
inline stacks::Design tf_ps_improved_design(int servers, const TfPsOptions& options) {
  stacks::Design design = design_of("tensorflowonspark_ps", "improved");
  design.servers = servers;
  design.tf_ps.updates = options.updates;
  design.tf_ps.backup_workers = options.backup_workers;
  design.tf_ps.max_staleness = options.max_staleness;
  design.tf_ps.pack_below_bytes = 40;
  design.tf_ps.keep_log = true;
  return design;
}

inline TfPsOptions asynchronous(std::optional<std::uint64_t> max_staleness = std::nullopt) {
  TfPsOptions options;
  options.max_staleness = max_staleness;
  return options;
}

inline TfPsOptions synchronous(int backup_workers = 0) {
  TfPsOptions options;
  options.updates = TfPsOptions::Updates::synchronous;
  options.backup_workers = backup_workers;
  return options;
}

// Does the design alone, whatever the order and the time in which messages come, decide each bit?
inline bool order_is_fixed(const stacks::Design& design) {
  if (design.bigdl_drop.share > 0) return false;
  if (design.rdma) return !design.faithful("arrival_order");
  if (design.stack != "tensorflowonspark_ps") return true;
  return design.tf_ps.synchronous() && design.tf_ps.backup_workers == 0 &&
         !(design.has_defect("arrival_order") && design.faithful("arrival_order"));
}

// Small buckets and short pieces, so that a small model has many.
inline stacks::Design improved_design(const std::string& stack, bool small) {
  stacks::Design design = design_of(stack, "improved");
  if (small) {
    design.shard_push.bucket_bytes = 64;
    design.shard_push.piece_elements = 7;
    design.all_reduce.bucket_bytes = 64;
    design.all_reduce.collective.segment_elements = 7;
  }
  return design;
}

inline std::vector<NamedDesign> all_designs() {
  constexpr std::uint64_t kFewer = 500;
  std::vector<NamedDesign> all;
  all.push_back({"cos_faithful", cos_design(true, true, true)});
  all.push_back({"cos_fixed", cos_design(false, false, false)});
  all.push_back({"cos_snapshot_gathered", cos_design(false, true, true), kFewer});
  all.push_back({"cos_momentum_gathered", cos_design(true, false, true), kFewer});
  all.push_back({"cos_optimizer_own", cos_design(true, true, false), kFewer});
  all.push_back({"cos_optimizer_full", cos_design(false, false, true), kFewer});
  all.push_back({"ring_one_bucket", allreduce_design(Algorithm::ring, 1 << 20), kFewer});
  all.push_back({"ring_many_buckets", allreduce_design(Algorithm::ring, 64)});
  all.push_back(
      {"doubling_one_bucket", allreduce_design(Algorithm::recursive_doubling, 1 << 20), kFewer});
  all.push_back({"doubling_many_buckets", allreduce_design(Algorithm::recursive_doubling, 64)});
  all.push_back({"tf_ring_faithful", tf_ring_design(true, false)});
  all.push_back({"tf_ring_small_sections", tf_ring_design(true, true), kFewer});
  all.push_back({"tf_ring_small_packs", tf_ring_design(false, true)});
  all.push_back({"bigdl_faithful", bigdl_design(true, true, true)});
  all.push_back({"bigdl_fixed", bigdl_design(false, false, false)});
  all.push_back({"bigdl_asks_once", bigdl_design(true, false, true), kFewer});
  all.push_back({"bigdl_drops", bigdl_drop_design(true)});
  all.push_back({"bigdl_drops_fixed", bigdl_drop_design(false), kFewer});
  all.push_back({"tf_ps_asynchronous", tf_ps_design(1, asynchronous())});
  all.push_back({"tf_ps_asynchronous_3_servers", tf_ps_design(3, asynchronous()), kFewer});
  all.push_back({"tf_ps_bounded", tf_ps_design(2, asynchronous(1))});
  all.push_back({"tf_ps_synchronous", tf_ps_design(2, synchronous())});
  all.push_back({"tf_ps_synchronous_fixed", tf_ps_design(3, synchronous(), false)});
  all.push_back({"tf_ps_backup", tf_ps_design(2, synchronous(1))});
  all.push_back({"tf_ps_improved", tf_ps_improved_design(1, asynchronous())});
  all.push_back({"tf_ps_improved_bounded", tf_ps_improved_design(2, asynchronous(1)), kFewer});
  all.push_back({"tf_ps_improved_synchronous", tf_ps_improved_design(2, synchronous())});
  all.push_back({"tf_ps_improved_backup", tf_ps_improved_design(3, synchronous(1)), kFewer});
  all.push_back({"tf_ps_backup_fixed", tf_ps_design(2, synchronous(2), false), kFewer});
  all.push_back({"bigdl_improved", improved_design("bigdl", false), kFewer});
  all.push_back({"bigdl_improved_small_pieces", improved_design("bigdl", true)});
  all.push_back({"cos_improved_small_pieces", improved_design("caffeonspark", true)});
  all.push_back({"cos_rdma_faithful", cos_rdma_design({})});
  all.push_back({"cos_rdma_fixed", design_of("caffeonspark", "fixed", {}, true)});
  all.push_back({"cos_rdma_rotated", cos_rdma_design({"arrival_order"}), kFewer});
  all.push_back(
      {"cos_rdma_typed", cos_rdma_design({"untyped_notification", "optimizer_full"}), kFewer});
  all.push_back({"cos_rdma_gathered",
                 cos_rdma_design({"snapshot_ungathered", "momentum_own_slice"}), kFewer});
  all.push_back({"tf_ring_improved_small", improved_design("tensorflowonspark", true)});
  using compute::WireElement;
  all.push_back({"cos_float16", with_element(cos_design(true, true, true), WireElement::float16)});
  all.push_back({"ring_truncated16",
                 with_element(allreduce_design(Algorithm::ring, 64), WireElement::truncated16)});
  all.push_back(
      {"doubling_bfloat16",
       with_element(allreduce_design(Algorithm::recursive_doubling, 64), WireElement::bfloat16)});
  all.push_back(
      {"tf_ring_float16", with_element(tf_ring_design(true, true), WireElement::float16), kFewer});
  all.push_back(
      {"tf_ring_packs_bfloat16", with_element(tf_ring_design(false, true), WireElement::bfloat16)});
  all.push_back({"tf_ring_truncated16",
                 with_element(tf_ring_design(true, false), WireElement::truncated16), kFewer});
  all.push_back({"tf_ring_improved_float16",
                 with_element(improved_design("tensorflowonspark", true), WireElement::float16),
                 kFewer});
  return all;
}

inline GroupOptions group_options(const stacks::Design& design, int world_size,
                                  std::size_t elements, std::uint64_t seed) {
  GroupOptions options;
  options.design = design;
  // Somebody must be waited for.
  int& backup_workers = options.design.tf_ps.backup_workers;
  backup_workers = std::min(backup_workers, world_size - 1);
  options.workers = world_size;
  options.parameters = uneven_parameters(elements);
  options.seed = seed;
  options.compute = std::chrono::microseconds(40);
  options.settle_after = {{0, Settle::parameters}, {1, Settle::parameters_and_optimizer}};
  options.optimizer.learning_rate.base = 0.1;
  return options;
}

}  // namespace dlobd::exchange::testing
