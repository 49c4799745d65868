#include "exchange/group.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/check.h"
#include "base/random.h"
#include "exchange/oracle_tf_ring.h"
#include "exchange/replicated.h"

namespace dlobd::exchange::testing {

namespace {

// Words that keep the streams of random numbers apart.
constexpr std::uint64_t kParameters = 1;
constexpr std::uint64_t kGradients = 2;
constexpr std::uint64_t kDelays = 3;

float value(base::Random& random) {
  return random.unit() - 0.5F;
}

}  // namespace

std::vector<compute::ParameterSpec> uneven_parameters(std::size_t elements) {
  std::vector<compute::ParameterSpec> specs;
  std::size_t size = 1;
  while (elements > 0) {
    size = std::min(size, elements);
    compute::ParameterSpec spec;
    spec.name = "view" + std::to_string(specs.size());
    spec.shape = {static_cast<std::int64_t>(size)};
    if (specs.size() % 2 == 1) {
      spec.lr_multiplier = 2;
      spec.decay_multiplier = 0;
    }
    specs.push_back(spec);
    elements -= size;
    size = size * 2 + 1;
  }
  return specs;
}

Values initial_parameters(std::size_t elements, std::uint64_t seed) {
  base::Random random = base::Random::of({kParameters, seed});
  Values values(elements);
  for (float& each : values) each = value(random);
  return values;
}

void fill_gradients(std::span<float> gradients, std::uint64_t seed, int rank, std::uint64_t step,
                    std::size_t first_element) {
  base::Random random =
      base::Random::of({kGradients, seed, static_cast<std::uint64_t>(rank), step, first_element});
  for (float& each : gradients) each = value(random);
}

Member::Member(const GroupOptions& options, std::unique_ptr<transport::Endpoint> endpoint)
    : options_(options),
      endpoint_(std::move(endpoint)),
      arena_(options.parameters, 0, options.backing),
      kernels_(options.backing == compute::Backing::memory ? compute::cpu_kernels()
                                                           : compute::counted_kernels()),
      optimizer_(options.optimizer, arena_, kernels_),
      phases_(endpoint_->loop()),
      pass_(endpoint_->loop()) {
  if (options.backing == compute::Backing::memory) {
    const Values start =
        options.start ? options.start->parameters : initial_parameters(arena_.size(), options.seed);
    std::copy(start.begin(), start.end(), arena_.parameters().begin());
    if (options.start) {
      const Values& momentum = options.start->momentum;
      std::copy(momentum.begin(), momentum.end(), optimizer_.slots().begin());
    }
  }
  const Context context{*endpoint_, arena_, optimizer_, kernels_, phases_, options.layout()};
  if (options.layout().is_worker(endpoint_->rank())) {
    exchange_ = stacks::make_exchange(options.design, context);
  } else {
    service_ = stacks::make_service(options.design, context);
  }
  if (options.start && exchange_ && !exchange_->residuals().empty()) {
    const auto mine =
        std::span(options.start->residuals)
            .subspan(static_cast<std::size_t>(endpoint_->rank()) * arena_.size(), arena_.size());
    std::copy(mine.begin(), mine.end(), exchange_->residuals().begin());
  }
}

Held Member::held() {
  Held now;
  if (options_.backing == compute::Backing::phantom) return now;
  now.parameters.assign(arena_.parameters().begin(), arena_.parameters().end());
  now.momentum.assign(optimizer_.slots().begin(), optimizer_.slots().end());
  if (exchange_) {
    const auto residuals = exchange_->residuals();
    now.residuals.assign(residuals.begin(), residuals.end());
  }
  return now;
}

base::Task<base::Result<void>> Member::run(const std::vector<std::vector<std::byte>>& descriptors) {
  auto connected = co_await endpoint_->connect(descriptors);
  DLOBD_CO_CHECK(connected);
  base::Result<void> done;
  if (exchange_) {
    done = co_await work();
    co_await pass_.ended();
  } else {
    done = co_await service_->serve(options_.first_step);
  }
  DLOBD_CO_CHECK(done);
  auto shut = co_await endpoint_->shutdown();
  co_return shut;
}

base::Task<base::Result<void>> Member::work() {
  for (std::uint64_t i = options_.first_step; i < options_.steps; ++i) {
    auto done = co_await step(i);
    DLOBD_CO_CHECK(done);
    ++steps_done;
    const auto settle = options_.settle_after.find(i);
    if (settle == options_.settle_after.end()) continue;
    co_await pass_.ended();
    auto settled_now = co_await exchange_->settle(settle->second);
    DLOBD_CO_CHECK(settled_now);
    settled.emplace(i, held());
  }
  co_await pass_.ended();
  auto left = co_await exchange_->leave();
  co_return left;
}

base::Task<base::Result<void>> Member::step(std::uint64_t step) {
  phases_.begin_step();
  auto begun = co_await exchange_->begin_step(step);
  DLOBD_CO_CHECK(begun);
  const BigDlOracle::Pass passed = co_await pass(step);
  passes.push_back(passed);
  if (passed != BigDlOracle::Pass::finished) exchange_->cut_off();
  auto outcome = co_await exchange_->finish_step();
  DLOBD_CO_CHECK(outcome);
  if (*outcome == StepOutcome::gradients_averaged) {
    optimizer_.update(step, compute::Range{0, arena_.size()});
  }
  staleness.push_back(exchange_->staleness());
  if (const auto* cos = dynamic_cast<const CosShardPush*>(exchange_.get())) {
    additions.push_back(cos->additions());
  }
  phases.push_back(phases_.end_step());
  co_return base::Result<void>();
}

// As the step loop does it.
base::Task<BigDlOracle::Pass> Member::pass(std::uint64_t step) {
  const auto scope = phases_.enter(metrics::Phase::compute);
  const auto deadline = exchange_->pass_deadline();
  bool ended = co_await pass_.ended(deadline);
  if (!ended || (deadline && endpoint_->loop().now() >= *deadline)) {
    computed_with.emplace_back();
    co_return BigDlOracle::Pass::never_begun;
  }
  exchange_->begin_pass();
  computed_with.push_back(held().parameters);
  if (deadline) {
    pass_.start(compute_alone(step));
  } else {
    co_await compute(step);
  }
  ended = co_await pass_.ended(deadline);
  co_return ended ? BigDlOracle::Pass::finished : BigDlOracle::Pass::cut_off;
}

void Member::fill(compute::ParameterView view, std::uint64_t step,
                  std::span<float> gradients) const {
  fill_gradients(gradients.subspan(view.offset, view.size), options_.seed, endpoint_->rank(),
                 options_.constant ? 0 : step, view.offset);
}

// A pass that may be cut off has the gradients to itself, too.
base::Task<void> Member::compute_alone(std::uint64_t step) {
  co_await compute(step);
  if (options_.backing == compute::Backing::phantom) co_return;
  Values given(arena_.size());
  for (const compute::ParameterView& view : arena_.views()) fill(view, step, given);
  const auto found = arena_.gradients();
  if (!std::equal(given.begin(), given.end(), found.begin(), found.end())) disturbed = step;
}

base::Task<void> Member::compute(std::uint64_t step) {
  const Values weights = held().parameters;
  base::Random delays = base::Random::of(
      {kDelays, options_.seed, static_cast<std::uint64_t>(endpoint_->rank()), step});
  for (std::size_t view = arena_.views().size(); view-- > 0;) {
    if (options_.compute > base::Duration::zero()) {
      const auto most = static_cast<std::uint64_t>(options_.compute.count());
      const auto slow = options_.slow_ranks.find(endpoint_->rank());
      std::uint64_t times = slow == options_.slow_ranks.end() ? 1 : slow->second;
      const auto slow_pass = options_.slow_passes.find({endpoint_->rank(), step});
      if (slow_pass != options_.slow_passes.end()) times *= slow_pass->second;
      const base::Duration delay(static_cast<std::int64_t>(times * delays.below(most)));
      co_await endpoint_->loop().sleep_for(delay);
    } else {
      co_await endpoint_->loop().yield();
    }
    const compute::ParameterView& each = arena_.views()[view];
    if (options_.backing == compute::Backing::memory) {
      fill(each, step, arena_.gradients());
    }
    exchange_->gradient_ready(view);
  }
  if (held().parameters != weights) disturbed = step;
}

Group::Group(base::Loop& loop, GroupOptions options,
             std::vector<std::unique_ptr<transport::Endpoint>> endpoints)
    : loop_(loop), options_(std::move(options)) {
  for (auto& endpoint : endpoints) {
    members_.push_back(std::make_unique<Member>(options_, std::move(endpoint)));
    auto descriptor = members_.back()->endpoint().descriptor();
    CHECK(descriptor.has_value(), "{}", descriptor.error().message);
    descriptors_.push_back(*descriptor);
  }
}

void Group::run() {
  running_ = static_cast<int>(members_.size());
  for (auto& member : members_) loop_.spawn(run_one(*member));
  loop_.run();
}

base::Task<void> Group::run_one(Member& member) {
  auto result = co_await member.run(descriptors_);
  member.ended = result;
  if (--running_ == 0 && !loop_.is_virtual()) loop_.stop();
}

std::vector<Values> all_gradients(const GroupOptions& options,
                                  const std::vector<compute::ParameterView>& views,
                                  std::size_t elements, std::uint64_t step) {
  std::vector<Values> gradients;
  for (int rank = 0; rank < options.workers; ++rank) {
    gradients.emplace_back(elements);
    for (const compute::ParameterView& view : views) {
      fill_gradients(std::span<float>(gradients.back()).subspan(view.offset, view.size),
                     options.seed, rank, options.constant ? 0 : step, view.offset);
    }
  }
  return gradients;
}

namespace {

void expect_allreduce_oracle(Group& group) {
  const GroupOptions& options = group.options();
  const Values start = initial_parameters(group.rank(0).arena().size(), options.seed);
  AllReduceOptions all_reduce = options.design.all_reduce;
  all_reduce.collective.element = options.design.wire_element;
  expect_replicated(
      group, AllReduceOracle(group.views(), start, options.workers, all_reduce, options.optimizer));
}

void expect_tf_ring_oracle(Group& group) {
  const GroupOptions& options = group.options();
  TfRingOptions ring = options.design.tf_ring;
  ring.single_pack = options.design.faithful("single_pack");
  ring.element = options.design.wire_element;
  const Values start = initial_parameters(group.rank(0).arena().size(), options.seed);
  expect_replicated(group,
                    TfRingOracle(group.views(), start, options.workers, ring, options.optimizer));
}

}  // namespace

void expect_oracle(Group& group) {
  for (int rank = 0; rank < group.options().layout().world_size(); ++rank) {
    const auto& ended = group.rank(rank).ended;
    ASSERT_TRUE(ended.has_value()) << "rank " << rank << " hangs";
    ASSERT_TRUE(ended->has_value()) << "rank " << rank << ": " << ended->error().message;
    ASSERT_FALSE(group.rank(rank).disturbed.has_value()) << "rank " << rank;
  }
  if (group.options().design.exchange == "shard_push") {
    expect_shard_push_oracle(group);
  } else if (group.options().design.stack == "caffeonspark") {
    expect_cos_oracle(group);
  } else if (group.options().design.exchange == "tf_ring") {
    expect_tf_ring_oracle(group);
  } else if (group.options().design.stack == "bigdl") {
    expect_bigdl_oracle(group);
  } else if (group.options().design.stack == "tensorflowonspark_ps") {
    expect_tf_ps_oracle(group);
  } else {
    expect_allreduce_oracle(group);
  }
}

void expect_phases_add_up(Group& group,
                          const std::function<void(const metrics::Phases::Totals&)>& also) {
  for (int rank = 0; rank < group.options().workers; ++rank) {
    ASSERT_EQ(group.rank(rank).phases.size(), group.options().steps);
    for (const auto& step : group.rank(rank).phases) {
      base::Duration sum = step.unattributed;
      for (const base::Duration phase : step.phases) sum += phase;
      EXPECT_EQ(sum, step.wall);
      EXPECT_EQ(step.unattributed, base::Duration::zero());
      also(step);
    }
  }
}

namespace {

base::Task<void> half_a_step(Exchange* exchange, std::size_t view,
                             std::optional<base::Result<StepOutcome>>* outcome) {
  auto begun = co_await exchange->begin_step(0);
  EXPECT_TRUE(begun.has_value());
  exchange->gradient_ready(view);
  *outcome = co_await exchange->finish_step();
}

}  // namespace

std::string end_of_a_step_without_its_gradients(const MakeExchange& make) {
  base::VirtualLoop loop;
  auto endpoints = simulated_endpoints(loop, 2, 1);
  compute::ParameterArena arena(uneven_parameters(20));
  Optimizer optimizer(OptimizerSettings(), arena, compute::cpu_kernels());
  metrics::Phases phases(loop);
  const auto exchange =
      make(Context{*endpoints[0], arena, optimizer, compute::cpu_kernels(), phases, Layout{2, 0}});
  std::optional<base::Result<StepOutcome>> outcome;
  loop.spawn(half_a_step(exchange.get(), arena.views().size() - 1, &outcome));
  loop.run();
  if (!outcome) return "it hangs";
  return *outcome ? "it ends well" : outcome->error().message;
}

void expect_closed_form(Group& group) {
  const GroupOptions& options = group.options();
  for (int rank = 0; rank < options.layout().world_size(); ++rank) {
    stacks::StepTraffic due;
    for (std::uint64_t step = 0; step < options.steps; ++step) {
      due += stacks::step_traffic(options.design, group.views(), options.layout(), rank, step == 0);
    }
    const transport::Counters& counted = group.rank(rank).endpoint().counters();
    using transport::Traffic;
    ASSERT_EQ(counted.sent_of(Traffic::data), due.data_sent) << "rank " << rank;
    ASSERT_EQ(counted.received_of(Traffic::data), due.data_received) << "rank " << rank;
    ASSERT_EQ(counted.sent_of(Traffic::control), due.control_sent) << "rank " << rank;
    ASSERT_EQ(counted.received_of(Traffic::control), due.control_received) << "rank " << rank;
  }
}

CosDefects defects_of(const stacks::Design& design) {
  CosDefects defects;
  defects.snapshot_ungathered = design.faithful("snapshot_ungathered");
  defects.momentum_own_slice = design.faithful("momentum_own_slice");
  defects.optimizer_full = design.faithful("optimizer_full");
  defects.rdma = design.rdma;
  defects.arrival_order = design.rdma && design.faithful("arrival_order");
  defects.untyped_notification = design.rdma && design.faithful("untyped_notification");
  return defects;
}

stacks::Design design_of(const std::string& stack, const std::string& behaviour,
                         const std::map<std::string, std::string>& defects, bool rdma,
                         const std::optional<std::string>& wire_element) {
  std::optional<std::string> given;
  if (!behaviour.empty()) given = behaviour;
  stacks::Choices choices;
  choices.behaviour = given;
  choices.defects = defects;
  choices.rdma = rdma;
  choices.wire_element = wire_element;
  auto design = stacks::make_design(stack, choices);
  CHECK(design.has_value(), "{}", design.error().message);
  return *design;
}

transport::simulated::LinkModel jittery_link() {
  transport::simulated::LinkModel model;
  model.latency = std::chrono::microseconds(5);
  model.bandwidth_bytes_per_second = 100'000'000;
  model.send_per_message = std::chrono::microseconds(1);
  model.receive_per_message = std::chrono::microseconds(1);
  model.jitter = std::chrono::microseconds(50);
  return model;
}

std::vector<std::unique_ptr<transport::Endpoint>> endpoints_of(
    transport::simulated::Network& network, int world_size) {
  std::vector<std::unique_ptr<transport::Endpoint>> endpoints;
  for (int rank = 0; rank < world_size; ++rank) endpoints.push_back(network.endpoint(rank));
  return endpoints;
}

std::vector<std::unique_ptr<transport::Endpoint>> simulated_endpoints(
    base::Loop& loop, int world_size, std::uint64_t seed, transport::simulated::Payload payload) {
  transport::simulated::Network network(loop, jittery_link(), world_size, seed, payload);
  return endpoints_of(network, world_size);
}

}  // namespace dlobd::exchange::testing
