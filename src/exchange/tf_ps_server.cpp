// Asynchronous, of variable v:
//
//   gradient of any worker  -->  optimizer(v, gradient)      at the full learning rate, at once
//   the last one of a worker's step  -->  updates + 1, (step done) to that worker
//
// The learning rate is that of the server's count of updates. Staleness of a step: updates of other
// workers between its first read here and its last application here; server 0's is reported. With a
// bound K, server 0 lets a worker begin step t only when the slowest has done t - K steps: a step's
// staleness is at most (W - 1)(2K + 1), for each other worker may be K steps behind at the read and
// K + 1 ahead at the end.
//
// Synchronous, of variable v, which is at step g (updates made):
//
//   gradient tagged g, the worker's first for g  -->  joins the sum     any other is dropped
//   W - B have joined  -->  optimizer(v, mean), g + 1
//   every variable here has passed a worker's step  -->  (step done) to it, its token
//
// A worker goes on with the oldest step that its tokens name, so no gradient is tagged with a step
// that some variable has not reached. All workers push all gradients of a step under one tag, so
// every variable sees the same tags, makes the same updates and ends at the same step.
//
// With backup workers (B > 0) some workers do more of their own steps at the front than others. So
// the last to reach a settlement or the end may be too few for an update. When fewer than W - B are
// still at work, a worker gets its token all the same, and what was gathered is forgotten at the
// meeting. Its next gradient may then land where one that joined the sum lies; that sum can not be
// completed any more: workers that joined it were all at work when there were too few.
//
// Sums are made in place, in the scratch of the first (fixed: the lowest) worker that joined: a
// gradient is never copied.
#include "exchange/tf_ps_server.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "exchange/buffer.h"

namespace dlobd::exchange {

using tf_ps::Word;
using transport::Arrival;
using transport::Notification;
using transport::Traffic;

TfPsServer::TfPsServer(Context context, TfPsOptions options)
    : context_(context),
      options_(options),
      placement_(context.arena.views(), context.layout, options.pack_below_bytes),
      rank_(context.endpoint.rank()),
      scratch_(make_buffer("scratch",
                           static_cast<std::size_t>(context.layout.workers) *
                               placement_.owned(context.endpoint.rank()),
                           context.arena.backing())),
      packed_(make_buffer(
          "packed", static_cast<std::size_t>(context.layout.workers) * placement_.packed_elements(),
          context.arena.backing())),
      workers_(static_cast<std::size_t>(context.layout.workers)),
      batches_(placement_.batches().size()),
      replies_(context.endpoint.loop()) {
  for (const std::size_t batch : own()) {
    batches_[batch].asked.resize(workers_.size());
    batches_[batch].given.resize(workers_.size());
  }
  context_.endpoint.register_memory(tf_ps::region::scratch,
                                    std::as_writable_bytes(scratch_.parameters()));
}

bool TfPsServer::owns(std::size_t batch) const {
  return batch < batches_.size() && placement_.batches()[batch].owner == rank_;
}

std::span<float> TfPsServer::scratch(std::size_t batch, int worker) {
  const tf_ps::Batch& each = placement_.batches()[batch];
  return scratch_.parameters().subspan(placement_.scratch_offset(each, worker), each.elements);
}

void TfPsServer::note(TfPsEvent::What what, int worker, std::size_t batch, std::uint64_t step) {
  if (!options_.keep_log) return;
  for (const std::size_t view : placement_.batches()[batch].views) {
    log_.push_back(TfPsEvent{what, worker, view, step});
  }
}

base::Task<base::Result<void>> TfPsServer::serve(std::uint64_t first_step) {
  updates_ = first_step * workers_.size();
  for (Worker& each : workers_) each.steps_done = first_step;
  for (Batch& each : batches_) each.step = first_step;
  while (!over_) {
    auto arrival = co_await context_.endpoint.next(tf_ps::kind::to_server);
    if (!arrival) break;
    auto handled = handle(*arrival);
    if (!handled) context_.endpoint.fail(handled.error());
  }
  auto replied = co_await replies_.join();
  if (context_.endpoint.error()) co_return base::fail(*context_.endpoint.error());
  co_return replied;
}

base::Result<void> TfPsServer::handle(const Arrival& arrival) {
  const std::size_t number = tf_ps::number_of(arrival.index);
  if (!context_.layout.is_worker(arrival.source)) return tf_ps::not_due(arrival, "a word");
  switch (tf_ps::word_of(arrival.index)) {
    case Word::run_step: return run_step(arrival);
    case Word::request: return request(arrival, number);
    case Word::gradient: return gradient(arrival, number);
    case Word::settle: return meet(arrival, Word::settle);
    case Word::leave: return meet(arrival, Word::leave);
  }
  return tf_ps::not_due(arrival, "a word");
}

base::Result<void> TfPsServer::run_step(const Arrival& arrival) {
  DLOBD_TRY(values, tf_ps::values_of(arrival, 1));
  Worker& worker = this->worker(arrival.source);
  if (worker.in_step || worker.meets) return tf_ps::not_due(arrival, "a step's start");
  worker.in_step = true;
  worker.step = values.front();
  worker.batches = 0;
  worker.staleness = 0;
  worker.updates_at_read.reset();
  for (const std::size_t batch : own()) {
    batches_[batch].asked[static_cast<std::size_t>(arrival.source)] = false;
    batches_[batch].given[static_cast<std::size_t>(arrival.source)] = false;
    if (options_.requests) {
      tell(arrival.source, tf_ps::kind::gradient_request, batch, {}, Traffic::control);
    }
  }
  worker.waits_to_go = options_.max_staleness && rank_ == context_.layout.workers;
  if (!options_.requests && !worker.waits_to_go) send_weights(arrival.source);
  let_go();
  return {};
}

void TfPsServer::send_weights(int worker) {
  for (const std::size_t batch : own()) {
    enqueue(batch, Operation{Operation::What::read, worker});
  }
}

void TfPsServer::let_go() {
  if (!options_.max_staleness) return;
  const auto slowest = std::min_element(
      workers_.begin(), workers_.end(),
      [](const Worker& a, const Worker& b) { return a.steps_done < b.steps_done; });
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& each = workers_[i];
    if (!each.waits_to_go || each.step > slowest->steps_done + *options_.max_staleness) continue;
    each.waits_to_go = false;
    tell(static_cast<int>(i), tf_ps::kind::go, each.step, {}, Traffic::control);
    if (!options_.requests) send_weights(static_cast<int>(i));
  }
}

base::Result<void> TfPsServer::request(const Arrival& arrival, std::size_t batch) {
  const auto source = static_cast<std::size_t>(arrival.source);
  const bool due = options_.requests && owns(batch) && arrival.bytes == 0 &&
                   worker(arrival.source).in_step && !worker(arrival.source).waits_to_go &&
                   !batches_[batch].asked[source];
  if (!due) return tf_ps::not_due(arrival, "a request for weights");
  batches_[batch].asked[source] = true;
  enqueue(batch, Operation{Operation::What::read, arrival.source});
  return {};
}

base::Result<void> TfPsServer::gradient(const Arrival& arrival, std::size_t batch) {
  const auto source = static_cast<std::size_t>(arrival.source);
  const bool due = owns(batch) && worker(arrival.source).in_step &&
                   arrival.bytes == placement_.batches()[batch].elements * sizeof(float) &&
                   !batches_[batch].given[source];
  if (!due) return tf_ps::not_due(arrival, "a gradient");
  batches_[batch].given[source] = true;
  if (options_.synchronous()) {
    gather(batch, arrival.source);
  } else {
    enqueue(batch, Operation{Operation::What::apply, arrival.source});
  }
  return {};
}

void TfPsServer::enqueue(std::size_t batch, Operation operation) {
  batches_[batch].waiting.push_back(operation);
  advance(batch);
}

void TfPsServer::advance(std::size_t number) {
  Batch& batch = batches_[number];
  while (!batch.waiting.empty()) {
    const Operation next = batch.waiting.front();
    if (next.what == Operation::What::apply && batch.being_sent > 0) return;
    batch.waiting.pop_front();
    if (next.what == Operation::What::read) {
      read(number, next.worker);
    } else if (options_.synchronous()) {
      apply_mean(number);
    } else {
      apply_gradient(number, next.worker);
    }
  }
}

void TfPsServer::read(std::size_t batch, int worker) {
  Worker& reader = this->worker(worker);
  if (!reader.updates_at_read) reader.updates_at_read = updates_;
  note(TfPsEvent::What::read, worker, batch, reader.step);
  ++batches_[batch].being_sent;
  reply(send_batch(batch, worker));
}

base::Task<base::Result<void>> TfPsServer::send_batch(std::size_t number, int worker) {
  const tf_ps::Batch& batch = placement_.batches()[number];
  const compute::ParameterView& first = context_.arena.views()[batch.views.front()];
  std::span<const float> weights;
  if (batch.packed()) {
    weights = pack(batch, worker);
  } else {
    weights = context_.arena.parameters().subspan(first.offset, first.size);
  }
  transport::Write write(
      worker, batch.packed() ? tf_ps::region::packed : tf_ps::region::parameters,
      (batch.packed() ? batch.packed_offset : first.offset) * sizeof(float), std::as_bytes(weights),
      Notification{tf_ps::kind::weights, tf_ps::number_of(number)}, Traffic::data);
  auto written = co_await context_.endpoint.write(write);
  --batches_[number].being_sent;
  if (written) advance(number);
  co_return written;
}

std::span<const float> TfPsServer::pack(const tf_ps::Batch& batch, int worker) {
  const std::size_t place =
      static_cast<std::size_t>(worker) * placement_.packed_elements() + batch.packed_offset;
  const std::span<float> packed = packed_.parameters().subspan(place, batch.elements);
  if (context_.arena.backing() == compute::Backing::phantom) return packed;
  std::size_t at = 0;
  for (const std::size_t view : batch.views) {
    const compute::ParameterView& variable = context_.arena.views()[view];
    const auto from = context_.arena.parameters().subspan(variable.offset, variable.size);
    std::copy(from.begin(), from.end(), packed.subspan(at).begin());
    at += variable.size;
  }
  return packed;
}

void TfPsServer::update(std::size_t batch, std::uint64_t step, std::span<const float> gradients) {
  std::size_t at = 0;
  for (const std::size_t view : placement_.batches()[batch].views) {
    const compute::ParameterView& variable = context_.arena.views()[view];
    context_.optimizer.update(step, variable.range(), gradients.subspan(at, variable.size));
    at += variable.size;
  }
}

void TfPsServer::apply_gradient(std::size_t batch, int worker) {
  Worker& giver = this->worker(worker);
  note(TfPsEvent::What::applied, worker, batch, updates_);
  update(batch, updates_, scratch(batch, worker));
  if (++giver.batches < own().size()) return;
  giver.staleness = updates_ - giver.updates_at_read.value_or(updates_);
  ++updates_;
  end_step(worker, giver.step + 1);
  let_go();
}

void TfPsServer::end_step(int worker, std::uint64_t next) {
  Worker& done = this->worker(worker);
  done.in_step = false;
  ++done.steps_done;
  tell(worker, tf_ps::kind::step_done, done.step, {next, done.staleness}, Traffic::control);
}

void TfPsServer::gather(std::size_t number, int worker) {
  Batch& batch = batches_[number];
  Worker& giver = this->worker(worker);
  note(TfPsEvent::What::gathered, worker, number, giver.step);
  auto& gathered = batch.gathered;
  const bool joins = giver.step == batch.step && static_cast<int>(gathered.size()) < needed() &&
                     std::find(gathered.begin(), gathered.end(), worker) == gathered.end();
  if (joins) {
    gathered.push_back(worker);
    if (options_.arrival_order && gathered.size() > 1) {
      context_.kernels.add(scratch(number, gathered.front()), scratch(number, worker));
    }
  }
  giver.staleness = std::max(giver.staleness, batch.step - std::min(batch.step, giver.step));
  giver.waits_for_token = ++giver.batches == own().size();
  if (joins && static_cast<int>(gathered.size()) == needed()) {
    enqueue(number, Operation{Operation::What::apply, -1});
  }
  give_tokens();
}

void TfPsServer::apply_mean(std::size_t number) {
  Batch& batch = batches_[number];
  auto& gathered = batch.gathered;
  if (!options_.arrival_order) {
    std::sort(gathered.begin(), gathered.end());
    for (std::size_t i = 1; i < gathered.size(); ++i) {
      context_.kernels.add(scratch(number, gathered.front()), scratch(number, gathered[i]));
    }
  }
  const std::span<float> sum = scratch(number, gathered.front());
  if (gathered.size() > 1) {
    context_.kernels.scale(sum, 1.0F / static_cast<float>(gathered.size()));
  }
  note(TfPsEvent::What::applied, -1, number, batch.step);
  update(number, batch.step, sum);
  ++batch.step;
  gathered.clear();
  give_tokens();
}

std::uint64_t TfPsServer::step_of_all() const {
  std::uint64_t step = batches_[own().front()].step;
  for (const std::size_t batch : own()) step = std::min(step, batches_[batch].step);
  return step;
}

void TfPsServer::give_tokens() {
  if (own().empty()) return;
  const std::uint64_t next = step_of_all();
  const bool too_few = static_cast<int>(workers_.size()) - meeting_ < needed();
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& each = workers_[i];
    if (!each.waits_for_token || (each.step >= next && !too_few)) continue;
    each.waits_for_token = false;
    end_step(static_cast<int>(i), next);
  }
}

base::Result<void> TfPsServer::meet(const Arrival& arrival, Word word) {
  Worker& worker = this->worker(arrival.source);
  const bool due = !worker.in_step && !worker.meets && arrival.bytes == 0 &&
                   (meeting_ == 0 || arrival.index == meeting_index_);
  if (!due) return tf_ps::not_due(arrival, "a meeting");
  worker.meets = true;
  meeting_index_ = arrival.index;
  ++meeting_;
  if (meeting_ < static_cast<int>(workers_.size())) {
    if (options_.synchronous()) give_tokens();
    return {};
  }
  meeting_ = 0;
  for (Worker& each : workers_) each.meets = false;
  for (Batch& each : batches_) each.gathered.clear();
  if (options_.keep_log) log_.push_back(TfPsEvent{TfPsEvent::What::settled, -1, 0, 0});
  if (word == Word::settle) settle(tf_ps::number_of(arrival.index) == 1);
  const std::uint64_t number = meetings_++;
  for (int rank = 0; rank < context_.layout.workers; ++rank) {
    tell(rank, tf_ps::kind::together, tf_ps::number_of(number), {}, Traffic::apart);
  }
  over_ = word == Word::leave;
  return {};
}

// What is being sent is not changed before it has gone: rank 0 gets what holds now.
void TfPsServer::settle(bool with_slots) {
  for (const std::size_t view : placement_.variables(rank_)) {
    for (const bool slots : {false, true}) {
      if (slots && !with_slots) continue;
      ++batches_[placement_.batch_of(view)].being_sent;
      reply(send_settled(view, slots));
    }
  }
}

base::Task<base::Result<void>> TfPsServer::send_settled(std::size_t view, bool slots) {
  const compute::ParameterView& variable = context_.arena.views()[view];
  const std::span<float> all = slots ? context_.optimizer.slots() : context_.arena.parameters();
  const Notification notification{slots ? tf_ps::kind::settled_slots : tf_ps::kind::settled_weights,
                                  tf_ps::number_of(view)};
  transport::Write write(
      0, slots ? tf_ps::region::slots : tf_ps::region::parameters, variable.offset * sizeof(float),
      std::as_bytes(all.subspan(variable.offset, variable.size)), notification, Traffic::apart);
  auto written = co_await context_.endpoint.write(write);
  const std::size_t batch = placement_.batch_of(view);
  --batches_[batch].being_sent;
  if (written) advance(batch);
  co_return written;
}

void TfPsServer::tell(int worker, transport::Kind kind, std::uint64_t index,
                      std::vector<std::uint64_t> values, Traffic traffic) {
  reply(tf_ps::say(context_.endpoint, worker, Notification{kind, tf_ps::number_of(index)},
                   std::move(values), traffic));
}

void TfPsServer::reply(base::Task<base::Result<void>> sending) {
  replies_.spawn(guarded(std::move(sending)));
}

base::Task<base::Result<void>> TfPsServer::guarded(base::Task<base::Result<void>> sending) {
  auto sent = co_await std::move(sending);
  if (!sent) context_.endpoint.fail(sent.error());
  co_return sent;
}

}  // namespace dlobd::exchange
