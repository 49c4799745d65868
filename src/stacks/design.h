// A stack as a value: which batch rule, exchange, schedule and optimizer placement it is, and each
// of its named defects, faithful to the real stack or fixed. docs/stacks.md explains each design.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "batches/batch_rule.h"
#include "compute/arena.h"
#include "exchange/allreduce.h"
#include "exchange/exchange.h"

namespace dlobd::stacks {

enum class Stack { caffeonspark, allreduce };
enum class Behaviour { faithful, fixed };
using batches::BatchRule;

struct Defect {
  std::string name;         // "write_256_bytes"
  std::string explanation;  // one line, for describe
  Behaviour behaviour = Behaviour::faithful;
};

struct Design {
  Stack stack = Stack::allreduce;
  std::string exchange;  // "cos_shard_push"
  BatchRule batch_rule = BatchRule::per_worker;
  std::optional<Behaviour> behaviour;  // allreduce takes none
  std::vector<Defect> defects;
  exchange::AllReduceOptions all_reduce;  // of the exchange allreduce
  // false for a stack that has no such defect.
  [[nodiscard]] bool has_defect(std::string_view defect) const;
  [[nodiscard]] bool faithful(std::string_view defect) const;  // CHECKs that it exists
};

std::string_view name(Stack stack);
std::string_view name(Behaviour behaviour);
using batches::name;  // of a BatchRule

// The names that --stack takes.
std::vector<std::string> stack_names();

// `behaviour` sets all defects, `defects` overrides some by name. Errors: an unknown name, with the
// nearest valid one; a behaviour or a defect for a stack that has none.
base::Result<Design> make_design(std::string_view stack, std::optional<std::string> behaviour,
                                 const std::map<std::string, std::string>& defects);

// Bytes of one system call on each connection; 0: as many as possible (the defect write_256_bytes).
std::size_t piece_bytes(const Design& design);

// Is the loss that is shown rank 0's own (the defect loss_local)? Otherwise whoever shows one takes
// the mean over the ranks, from the step rows that they report.
bool loss_is_local(const Design& design);

// The protocol of `design` for one rank; registers its regions with the endpoint.
std::unique_ptr<exchange::Exchange> make_exchange(const Design& design, exchange::Context context);

// Messages and payload bytes that `rank` sends in one step: the closed form that tests hold the
// transport's counters to.
struct StepTraffic {
  std::uint64_t messages_sent = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t messages_received = 0;
  std::uint64_t bytes_received = 0;
};
StepTraffic step_traffic(const Design& design, const std::vector<compute::ParameterView>& views,
                         int world_size, int rank);

// The same for one bucket of an all-reduce.
StepTraffic bucket_traffic(const Design& design, std::size_t elements, int world_size, int rank);

// The design in a page: who owns what, rounds, messages and bytes, defects that are on.
std::string describe(const Design& design, std::string_view model,
                     const std::vector<compute::ParameterView>& views, int world_size);

}  // namespace dlobd::stacks
