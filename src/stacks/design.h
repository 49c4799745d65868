// A stack as a value: which batch rule, feed, exchange, schedule and optimizer placement it is, and
// each of its named defects, faithful to the real stack or fixed. docs/stacks.md explains each
// design.
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
#include "batches/memory_source.h"
#include "compute/arena.h"
#include "compute/processor.h"
#include "compute/wire_element.h"
#include "exchange/allreduce.h"
#include "exchange/bigdl_drop.h"
#include "exchange/exchange.h"
#include "exchange/service.h"
#include "exchange/shard_pieces.h"
#include "exchange/tf_ps.h"
#include "exchange/tf_ring.h"
#include "transport/endpoint.h"

namespace dlobd::stacks {

// improved: our own design with the stack's semantics and owners, where it has one; no defects.
enum class Behaviour { faithful, fixed, improved };
using batches::BatchRule;

struct Defect {
  std::string name;         // "write_256_bytes"
  std::string explanation;  // one line, for describe
  Behaviour behaviour = Behaviour::faithful;
};

struct Design {
  std::string stack;     // "caffeonspark"
  std::string exchange;  // "cos_shard_push"
  // Of the payload; where it was chosen, of gradients on their way, with error feedback.
  compute::WireElement wire_element = compute::WireElement::float32;
  BatchRule batch_rule = BatchRule::per_worker;
  batches::Order order = batches::Order::shuffled;  // of the records in an epoch
  std::optional<Behaviour> behaviour;               // allreduce takes none
  std::vector<Defect> defects;
  bool rdma = false;        // the variant for one-sided writes, of a stack that has one
  std::string server_role;  // of the ranks after the workers: "ps", "driver"; empty: there are none
  int servers = 0;          // how many of those
  exchange::AllReduceOptions all_reduce;       // of the exchange allreduce
  exchange::TfRingOptions tf_ring;             // of the exchange tf_ring, but for its defect
  exchange::TfPsOptions tf_ps;                 // of the exchange tf_ps, but for its defect
  exchange::BigDlDrop bigdl_drop;              // of the exchange bigdl_blocks
  std::map<std::string, std::string> options;  // that were chosen, by name, for the record
  exchange::ShardPushOptions shard_push;       // of the exchange shard_push
  // false for a stack that has no such defect.
  [[nodiscard]] bool has_defect(std::string_view defect) const;
  [[nodiscard]] bool faithful(std::string_view defect) const;  // CHECKs that it exists
  [[nodiscard]] exchange::Layout layout(int workers) const { return {workers, servers}; }
  // "worker", or the server_role.
  [[nodiscard]] std::string_view role(exchange::Layout layout, int rank) const;
};

std::string_view name(Behaviour behaviour);
using batches::name;  // of a BatchRule

// The names that --stack takes.
std::vector<std::string> stack_names();

// What a user may choose beyond the behaviour; refused for a stack to which it means nothing.
struct Choices {
  std::optional<std::string> behaviour;        // sets all defects
  std::map<std::string, std::string> defects;  // overrides some by name
  // As the command line has them, by name without dashes: {"ps", "2"}, {"updates", "synchronous"}.
  std::map<std::string, std::string> options;
  std::optional<std::string> wire_element;  // of gradients on their way
  bool rdma = false;  // the network does one-sided writes: the variant for them, if there is one
};
// Every option that some stack takes, with a line for --help: {"ps", "parameter servers (...)"}.
std::map<std::string, std::string> option_names();

// Errors: an unknown name, with the nearest valid one; a behaviour, a defect or another choice for
// a stack that has none.
base::Result<Design> make_design(std::string_view stack, const Choices& choices);
// What can be refused only when the number of workers is known.
base::Result<void> check_workers(const Design& design, int workers);

// Bytes of one system call on each connection; 0: as many as possible (the defect write_256_bytes).
std::size_t piece_bytes(const Design& design);

// Is the loss that is shown rank 0's own (the defect loss_local)? Otherwise whoever shows one takes
// the mean over the ranks, from the step rows that they report.
bool loss_is_local(const Design& design);

// Do records reach the worker one by one (the defect record_feed)?
bool feeds_records(const Design& design);

// The protocol of `design` for one worker, or for one of its servers; registers its regions with
// the endpoint.
std::unique_ptr<exchange::Exchange> make_exchange(const Design& design, exchange::Context context);
std::unique_ptr<exchange::Service> make_service(const Design& design, exchange::Context context);

// Why no figure of the real stack can exist for this combination of network and processor: "the
// real bigdl does not run over rdma". Nothing where the stack has it, and where there is no real
// stack. A simulated network counts as tcp. A profile stands for a processor that the stack has.
std::optional<std::string> hypothetical(const Design& design, bool rdma,
                                        const compute::Processor& processor);

// Messages and payload bytes that a rank sends and receives in one step: the closed form that tests
// hold the transport's counters to. data: the payload of the exchange; control: requests, look-ups,
// launches, tokens.
struct StepTraffic {
  transport::Count data_sent, data_received;
  transport::Count control_sent, control_received;
  friend bool operator==(const StepTraffic&, const StepTraffic&) = default;
  StepTraffic& operator+=(const StepTraffic& more);
};
// `first`: in the first step of a run, which may move more.
StepTraffic step_traffic(const Design& design, const std::vector<compute::ParameterView>& views,
                         exchange::Layout layout, int rank, bool first = false);

// The design in a page: who owns what, rounds, messages and bytes, defects that are on.
// `hypothetical`: as above, of where it is to run.
std::string describe(const Design& design, std::string_view model,
                     const std::vector<compute::ParameterView>& views, int workers,
                     const std::optional<std::string>& hypothetical = std::nullopt);

}  // namespace dlobd::stacks
