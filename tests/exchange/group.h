// N ranks of one design in one process, with gradients that are a function of seed, rank, step and
// element instead of a model's: everything that an exchange does can be compared with its oracle.
// Any transport, any loop.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "base/waiters.h"
#include "exchange/exchange.h"
#include "exchange/oracle.h"
#include "exchange/oracle_bigdl.h"
#include "stacks/design.h"
#include "transport/endpoint.h"
#include "transport/simulated/network.h"

namespace dlobd::exchange::testing {

// What a rank's arena and momentum held at some point.
struct Held {
  Values parameters;
  Values momentum;
  Values residuals;  // of all ranks, on rank 0 when it has settled the optimizer
};

struct GroupOptions {
  stacks::Design design;
  int workers = 1;  // beside them, the servers of the design
  std::vector<compute::ParameterSpec> parameters;
  std::uint64_t steps = 3;  // counted from 0
  // To resume: what every rank starts with, and from which step on.
  std::optional<Held> start;
  std::uint64_t first_step = 0;
  std::uint64_t seed = 1;
  bool constant = false;  // the gradients of every step are those of step 0
  // Before each gradient, a rank computes for up to this long (0: only lets others run).
  base::Duration compute{0};
  std::map<int, std::uint64_t> slow_ranks;  // that compute so many times as long
  // Likewise, of a rank in a step.
  std::map<std::pair<int, std::uint64_t>, std::uint64_t> slow_passes;
  // After these steps all ranks settle.
  std::map<std::uint64_t, Settle> settle_after;
  OptimizerSettings optimizer;
  compute::Backing backing = compute::Backing::memory;

  [[nodiscard]] Layout layout() const { return design.layout(workers); }
};

// P elements in views of uneven sizes, with Caffe's multipliers.
std::vector<compute::ParameterSpec> uneven_parameters(std::size_t elements);
Values initial_parameters(std::size_t elements, std::uint64_t seed);
void fill_gradients(std::span<float> gradients, std::uint64_t seed, int rank, std::uint64_t step,
                    std::size_t first_element);

class Member {
 public:
  Member(const GroupOptions& options, std::unique_ptr<transport::Endpoint> endpoint);

  base::Task<base::Result<void>> run(const std::vector<std::vector<std::byte>>& descriptors);

  transport::Endpoint& endpoint() { return *endpoint_; }
  [[nodiscard]] const compute::ParameterArena& arena() const { return arena_; }
  [[nodiscard]] Exchange& exchange() { return *exchange_; }  // of a worker
  [[nodiscard]] Service& service() { return *service_; }     // of a server
  [[nodiscard]] Held held();

  std::optional<base::Result<void>> ended;  // nothing: still running
  std::vector<Values> computed_with;        // by step: the weights of a pass that has begun
  std::vector<BigDlOracle::Pass> passes;    // by step
  std::map<std::uint64_t, Held> settled;    // by step
  std::optional<std::uint64_t> disturbed;   // a step whose arena others changed while it computed
  std::uint64_t steps_done = 0;
  std::vector<std::uint64_t> staleness;         // by step
  std::vector<std::vector<int>> additions;      // by step: CaffeOnSpark, the peers in their order
  std::vector<metrics::Phases::Totals> phases;  // by step

 private:
  base::Task<base::Result<void>> work();
  base::Task<base::Result<void>> step(std::uint64_t step);
  base::Task<BigDlOracle::Pass> pass(std::uint64_t step);
  base::Task<void> compute(std::uint64_t step);
  base::Task<void> compute_alone(std::uint64_t step);
  void fill(compute::ParameterView view, std::uint64_t step, std::span<float> gradients) const;

  const GroupOptions& options_;
  std::unique_ptr<transport::Endpoint> endpoint_;
  compute::ParameterArena arena_;
  const compute::Kernels& kernels_;
  Optimizer optimizer_;
  metrics::Phases phases_;
  std::unique_ptr<Exchange> exchange_;  // of a worker
  std::unique_ptr<Service> service_;    // of a server
  base::Background pass_;
};

class Group {
 public:
  Group(base::Loop& loop, GroupOptions options,
        std::vector<std::unique_ptr<transport::Endpoint>> endpoints);

  // Until every rank has ended, or, in virtual time, until nothing can happen any more.
  void run();

  Member& rank(int rank) { return *members_.at(static_cast<std::size_t>(rank)); }
  [[nodiscard]] const GroupOptions& options() const { return options_; }
  [[nodiscard]] const std::vector<compute::ParameterView>& views() {
    return rank(0).arena().views();
  }

 private:
  base::Task<void> run_one(Member& member);

  base::Loop& loop_;
  GroupOptions options_;
  std::vector<std::vector<std::byte>> descriptors_;
  std::vector<std::unique_ptr<Member>> members_;
  int running_ = 0;
};

// Every worker's gradients of one step.
std::vector<Values> all_gradients(const GroupOptions& options,
                                  const std::vector<compute::ParameterView>& views,
                                  std::size_t elements, std::uint64_t step);

// Every rank of a group that has run well holds, at every settled step and at the end, what its
// oracle holds; and no write of a peer has changed weights in use.
void expect_oracle(Group& group);
// Messages and bytes of every rank are those of the closed form times the steps.
void expect_closed_form(Group& group);

// Of each step of each worker the phases add up to the wall time, with nothing left over; `also`
// looks at the rest.
void expect_phases_add_up(Group& group,
                          const std::function<void(const metrics::Phases::Totals&)>& also);

// What finish_step() says on rank 0 of 2 when one gradient alone, of four, was ever ready; no
// coroutine is left behind.
using MakeExchange = std::function<std::unique_ptr<Exchange>(Context)>;
std::string end_of_a_step_without_its_gradients(const MakeExchange& make);

// shard_push_oracle.cpp
void expect_shard_push_oracle(Group& group);
// bigdl_oracle.cpp
void expect_bigdl_oracle(Group& group);
void expect_cos_oracle(Group& group);
void expect_tf_ps_oracle(Group& group);

CosDefects defects_of(const stacks::Design& design);
stacks::Design design_of(const std::string& stack, const std::string& behaviour = "",
                         const std::map<std::string, std::string>& defects = {}, bool rdma = false,
                         const std::optional<std::string>& wire_element = std::nullopt);

// Latency, bandwidth, cost of messages, and jitter that dwarfs them all.
transport::simulated::LinkModel jittery_link();
std::vector<std::unique_ptr<transport::Endpoint>> endpoints_of(
    transport::simulated::Network& network, int world_size);
// A group's endpoints over that link.
std::vector<std::unique_ptr<transport::Endpoint>> simulated_endpoints(
    base::Loop& loop, int world_size, std::uint64_t seed,
    transport::simulated::Payload payload = transport::simulated::Payload::moved);

}  // namespace dlobd::exchange::testing
