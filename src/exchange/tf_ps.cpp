// One step of worker w of W with V variables of P elements on S servers; variable v lives on server
// v mod S, with its slot. The receiver starts every transfer. (.) is a small message, [.] a
// variable.
//
//   worker                              server, for each of its variables
//   begin_step   (run step t)      -->  (wants gradient v)  ------------------------+
//                (wants weights v) -->                                              |
//                 arena            <--  [weights v]                                 |
//                forward, backward                                                  v
//                 gradient v is ready and asked for: [gradient v]  -->  scratch of this worker
//                                       asynchronous: the optimizer runs on v at once
//                                       synchronous: added up; when W - B of this step are there,
//                                       the optimizer runs once on their mean
//   finish_step  (step done)       <--  asynchronous: all of this step's gradients are applied
//                                       synchronous: the token: all variables are a step further
//
//   per worker and step: V messages and 4P bytes in, as many out; small ones: V + S out, V + S in
//   (one more in with a bound on staleness: server 0's `go`). A server of which all W workers ask:
//   W times its variables' share. S counts the servers that own something.
//
// Our own design (improved) has no requests: a server sends weights when it hears of the step, a
// worker pushes gradients when they are ready. Small variables of a server share one message, which
// is packed and unpacked on the worker; S + S small messages are left.
//
// A step's weights are read one variable after the other while others may write: as in TensorFlow,
// they need not be of one moment. Each variable by itself is: a server neither applies a gradient
// to a variable that is being sent, nor sends one before a gradient that came earlier is applied.
//
// Why no one-sided write hits memory in use: weights land only between their request in begin_step
// and its end. A worker's gradient of v lands in a place of its own, and the next one is pushed in
// its next step, so after `step done`: asynchronous, it has been applied then; synchronous, the
// update that it was for is over (tf_ps_server.cpp has the one exception). The arena's gradients
// are handed over before finish_step() returns.
#include "exchange/tf_ps.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "exchange/buffer.h"

namespace dlobd::exchange {

using metrics::Phase;
using tf_ps::Word;
using transport::Arrival;
using transport::Notification;
using transport::Traffic;

TfPs::TfPs(Context context, TfPsOptions options)
    : context_(context),
      options_(options),
      placement_(context.arena.views(), context.layout, options.pack_below_bytes),
      rank_(context.endpoint.rank()),
      packed_(make_buffer("packed", placement_.packed_elements(), context.arena.backing())),
      batches_(placement_.batches().size()),
      beside_(context.endpoint.loop()) {
  auto& endpoint = context_.endpoint;
  endpoint.register_memory(tf_ps::region::parameters,
                           std::as_writable_bytes(context.arena.parameters()));
  endpoint.register_memory(tf_ps::region::packed, std::as_writable_bytes(packed_.parameters()));
  endpoint.register_memory(tf_ps::region::slots, std::as_writable_bytes(context.optimizer.slots()));
}

base::Task<base::Result<void>> TfPs::begin_step(std::uint64_t step) {
  CHECK(!open_, "begin_step before the last step was finished");
  local_step_ = options_.synchronous() ? next_local_step_.value_or(step) : step;
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    batches_[i].asked = !options_.requests;
    batches_[i].missing = placement_.batches()[i].views.size();
  }
  unready_ = context_.arena.views().size();
  finishing_ = false;
  open_ = true;
  if (options_.requests) beside_.spawn(hear_requests());
  const auto scope = context_.phases.enter(Phase::exchange);
  std::span<const int> servers(placement_.owners());
  if (options_.max_staleness && !servers.empty()) {
    // The others would send weights before the slowest worker has come near.
    auto first = co_await start_servers(servers.first(1));
    DLOBD_CO_CHECK(first);
    auto gone = co_await await_go();
    DLOBD_CO_CHECK(gone);
    servers = servers.subspan(1);
  }
  auto started = co_await start_servers(servers);
  DLOBD_CO_CHECK(started);
  auto pulled = co_await pull_weights();
  co_return pulled;
}

base::Task<base::Result<void>> TfPs::start_servers(std::span<const int> servers) {
  base::TaskGroup sends(context_.endpoint.loop());
  const Notification notification{tf_ps::kind::to_server, index_of(Word::run_step, 0)};
  for (const int server : servers) {
    std::vector<std::uint64_t> values(1, local_step_);
    sends.spawn(
        tf_ps::say(context_.endpoint, server, notification, std::move(values), Traffic::control));
  }
  auto sent = co_await sends.join();
  co_return sent;
}

base::Task<base::Result<void>> TfPs::await_go() {
  const auto scope = context_.phases.enter(Phase::schedule);
  auto arrival = co_await context_.endpoint.next(tf_ps::kind::go);
  DLOBD_CO_CHECK(arrival);
  const bool due =
      arrival->source == context_.layout.workers && arrival->index == tf_ps::number_of(local_step_);
  if (!due) co_return tf_ps::not_due(*arrival, "a go");
  co_return base::Result<void>();
}

base::Task<base::Result<void>> TfPs::pull_weights() {
  base::TaskGroup sends(context_.endpoint.loop());
  for (std::size_t i = 0; options_.requests && i < batches_.size(); ++i) {
    const Notification notification{tf_ps::kind::to_server, index_of(Word::request, i)};
    std::vector<std::uint64_t> nothing;
    sends.spawn(tf_ps::say(context_.endpoint, placement_.batches()[i].owner, notification,
                           std::move(nothing), Traffic::control));
  }
  auto received = co_await receive_weights();
  auto sent = co_await sends.join();
  DLOBD_CO_CHECK(received);
  co_return sent;
}

base::Task<base::Result<void>> TfPs::receive_weights() {
  std::vector<bool> here(batches_.size());
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    auto arrival = co_await context_.endpoint.next(tf_ps::kind::weights);
    DLOBD_CO_CHECK(arrival);
    const std::size_t number = arrival->index;
    const bool due = number < here.size() && !here[number] &&
                     arrival->source == placement_.batches()[number].owner &&
                     arrival->bytes == placement_.batches()[number].elements * sizeof(float);
    if (!due) co_return tf_ps::not_due(*arrival, "weights");
    here[number] = true;
    if (placement_.batches()[number].packed()) unpack(placement_.batches()[number]);
  }
  co_return base::Result<void>();
}

void TfPs::unpack(const tf_ps::Batch& batch) {
  if (context_.arena.backing() == compute::Backing::phantom) return;
  std::size_t at = batch.packed_offset;
  for (const std::size_t view : batch.views) {
    const compute::ParameterView& variable = context_.arena.views()[view];
    const auto from = packed_.parameters().subspan(at, variable.size);
    std::copy(from.begin(), from.end(),
              context_.arena.parameters().subspan(variable.offset).begin());
    at += variable.size;
  }
}

void TfPs::pack(const tf_ps::Batch& batch) {
  if (context_.arena.backing() == compute::Backing::phantom) return;
  std::size_t at = batch.packed_offset;
  for (const std::size_t view : batch.views) {
    const compute::ParameterView& variable = context_.arena.views()[view];
    const auto from = context_.arena.gradients().subspan(variable.offset, variable.size);
    std::copy(from.begin(), from.end(), packed_.gradients().subspan(at).begin());
    at += variable.size;
  }
}

base::Task<base::Result<void>> TfPs::receive_variables(transport::Kind kind, const char* what) {
  std::vector<bool> here(context_.arena.views().size());
  for (std::size_t i = 0; i < here.size(); ++i) {
    auto arrival = co_await context_.endpoint.next(kind);
    DLOBD_CO_CHECK(arrival);
    const std::size_t view = arrival->index;
    const bool due = view < here.size() && !here[view] &&
                     arrival->source == placement_.owner(view) &&
                     arrival->bytes == context_.arena.views()[view].size * sizeof(float);
    if (!due) co_return tf_ps::not_due(*arrival, what);
    here[view] = true;
  }
  co_return base::Result<void>();
}

base::Task<base::Result<void>> TfPs::hear_requests() {
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    auto arrival = co_await context_.endpoint.next(tf_ps::kind::gradient_request);
    DLOBD_CO_CHECK(arrival);
    const std::size_t number = arrival->index;
    const bool due = number < batches_.size() && !batches_[number].asked &&
                     arrival->source == placement_.batches()[number].owner;
    if (!due) co_return tf_ps::not_due(*arrival, "a request for a gradient");
    batches_[number].asked = true;
    push_if_due(number);
  }
  co_return base::Result<void>();
}

void TfPs::gradient_ready(std::size_t view) {
  const std::size_t number = placement_.batch_of(view);
  CHECK(open_ && batches_.at(number).missing > 0, "a gradient that is not due: view {}", view);
  --unready_;
  if (--batches_[number].missing == 0) push_if_due(number);
}

void TfPs::push_if_due(std::size_t batch) {
  if (batches_[batch].asked && batches_[batch].missing == 0) beside_.spawn(push(batch));
}

base::Task<base::Result<void>> TfPs::push(std::size_t number) {
  const tf_ps::Batch& batch = placement_.batches()[number];
  if (!finishing_ && pushing_ == 0) overlapped_.emplace(context_.phases);
  ++pushing_;
  std::span<const float> gradients;
  if (batch.packed()) {
    pack(batch);
    gradients = packed_.gradients().subspan(batch.packed_offset, batch.elements);
  } else {
    const compute::ParameterView& variable = context_.arena.views()[batch.views.front()];
    gradients = context_.arena.gradients().subspan(variable.offset, variable.size);
  }
  transport::Write write(
      batch.owner, tf_ps::region::scratch, placement_.scratch_offset(batch, rank_) * sizeof(float),
      std::as_bytes(gradients),
      Notification{tf_ps::kind::to_server, index_of(Word::gradient, number)}, Traffic::data);
  auto written = co_await context_.endpoint.write(write);
  if (--pushing_ == 0) overlapped_.reset();
  co_return written;
}

base::Task<base::Result<StepOutcome>> TfPs::finish_step() {
  const auto scope = context_.phases.enter(Phase::exchange);
  finishing_ = true;
  overlapped_.reset();
  if (open_ && unready_ > 0 && !context_.endpoint.error()) {
    co_return base::fail(
        base::ErrorKind::cancelled,
        fmt::format("the backward pass ended before all gradients were ready: {} missing",
                    unready_));
  }
  auto pushed = co_await beside_.join();
  const bool was_open = open_;
  open_ = false;
  DLOBD_CO_CHECK(pushed);
  if (was_open) {
    auto done = co_await await_step_done();
    DLOBD_CO_CHECK(done);
  }
  co_return StepOutcome::parameters_replaced;
}

base::Task<base::Result<void>> TfPs::await_step_done() {
  const auto scope =
      context_.phases.enter(options_.synchronous() ? Phase::schedule : Phase::exchange);
  std::vector<int> waiting = placement_.owners();
  std::optional<std::uint64_t> next;
  while (!waiting.empty()) {
    auto arrival = co_await context_.endpoint.next(tf_ps::kind::step_done);
    DLOBD_CO_CHECK(arrival);
    auto values = tf_ps::values_of(*arrival, 2);
    DLOBD_CO_CHECK(values);
    const auto from = std::find(waiting.begin(), waiting.end(), arrival->source);
    if (from == waiting.end() || arrival->index != tf_ps::number_of(local_step_)) {
      co_return tf_ps::not_due(*arrival, "a step done");
    }
    waiting.erase(from);
    // The oldest: only then has every server made the updates before it.
    next = std::min(next.value_or(values->front()), values->front());
    if (arrival->source == context_.layout.workers) staleness_ = values->back();
  }
  next_local_step_ = next;
  co_return base::Result<void>();
}

base::Task<base::Result<void>> TfPs::settle(Settle what) {
  const bool slots = what == Settle::parameters_and_optimizer;
  auto met = co_await meet(Word::settle, slots ? 1 : 0, slots);
  co_return met;
}

base::Task<base::Result<void>> TfPs::leave() {
  auto met = co_await meet(Word::leave, 0, false);
  co_return met;
}

base::Task<base::Result<void>> TfPs::meet(Word word, std::uint64_t number, bool receives_slots) {
  base::TaskGroup sends(context_.endpoint.loop());
  const Notification notification{tf_ps::kind::to_server, index_of(word, number)};
  for (int server = context_.layout.workers; server < context_.layout.world_size(); ++server) {
    std::vector<std::uint64_t> nothing;
    sends.spawn(
        tf_ps::say(context_.endpoint, server, notification, std::move(nothing), Traffic::apart));
  }
  base::Result<void> received;
  if (rank_ == 0 && word == Word::settle) {
    received = co_await receive_variables(tf_ps::kind::settled_weights, "settled weights");
    if (received && receives_slots) {
      received = co_await receive_variables(tf_ps::kind::settled_slots, "settled slots");
    }
  }
  if (received) received = co_await await_together();
  auto sent = co_await sends.join();
  DLOBD_CO_CHECK(received);
  co_return sent;
}

base::Task<base::Result<void>> TfPs::await_together() {
  const std::uint32_t meeting = tf_ps::number_of(meetings_++);
  for (int i = 0; i < context_.layout.servers; ++i) {
    auto arrival = co_await context_.endpoint.next(tf_ps::kind::together);
    DLOBD_CO_CHECK(arrival);
    if (arrival->index != meeting) co_return tf_ps::not_due(*arrival, "a meeting's end");
  }
  co_return base::Result<void>();
}

}  // namespace dlobd::exchange
