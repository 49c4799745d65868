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
      placement_(context.arena.views(), context.layout),
      rank_(context.endpoint.rank()),
      scratch_(make_buffer("scratch",
                           static_cast<std::size_t>(context.layout.workers) *
                               placement_.owned(context.endpoint.rank()),
                           context.arena.backing())),
      workers_(static_cast<std::size_t>(context.layout.workers)),
      variables_(context.arena.views().size()),
      replies_(context.endpoint.loop()) {
  for (const std::size_t view : placement_.variables(rank_)) {
    variables_[view].asked.resize(workers_.size());
    variables_[view].given.resize(workers_.size());
  }
  context_.endpoint.register_memory(tf_ps::region::scratch,
                                    std::as_writable_bytes(scratch_.parameters()));
}

bool TfPsServer::owns(std::size_t view) const {
  return view < variables_.size() && placement_.owner(view) == rank_;
}

std::span<float> TfPsServer::scratch(std::size_t view, int worker) {
  return scratch_.parameters().subspan(placement_.scratch_offset(view, worker),
                                       context_.arena.views()[view].size);
}

void TfPsServer::note(TfPsEvent::What what, int worker, std::size_t view, std::uint64_t step) {
  if (options_.keep_log) log_.push_back(TfPsEvent{what, worker, view, step});
}

base::Task<base::Result<void>> TfPsServer::serve(std::uint64_t first_step) {
  updates_ = first_step * workers_.size();
  for (Worker& each : workers_) each.steps_done = first_step;
  for (Variable& each : variables_) each.step = first_step;
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
  worker.gradients = 0;
  worker.staleness = 0;
  worker.updates_at_read.reset();
  for (const std::size_t view : placement_.variables(rank_)) {
    variables_[view].asked[static_cast<std::size_t>(arrival.source)] = false;
    variables_[view].given[static_cast<std::size_t>(arrival.source)] = false;
    tell(arrival.source, tf_ps::kind::gradient_request, view, {}, Traffic::control);
  }
  worker.waits_to_go = options_.max_staleness && rank_ == context_.layout.workers;
  let_go();
  return {};
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
  }
}

base::Result<void> TfPsServer::request(const Arrival& arrival, std::size_t view) {
  const auto source = static_cast<std::size_t>(arrival.source);
  const bool due = owns(view) && arrival.bytes == 0 && worker(arrival.source).in_step &&
                   !worker(arrival.source).waits_to_go && !variables_[view].asked[source];
  if (!due) return tf_ps::not_due(arrival, "a request for weights");
  variables_[view].asked[source] = true;
  enqueue(view, Operation{Operation::What::read, arrival.source});
  return {};
}

base::Result<void> TfPsServer::gradient(const Arrival& arrival, std::size_t view) {
  const auto source = static_cast<std::size_t>(arrival.source);
  const bool due = owns(view) && worker(arrival.source).in_step &&
                   arrival.bytes == context_.arena.views()[view].size * sizeof(float) &&
                   !variables_[view].given[source];
  if (!due) return tf_ps::not_due(arrival, "a gradient");
  variables_[view].given[source] = true;
  if (options_.synchronous()) {
    gather(view, arrival.source);
  } else {
    enqueue(view, Operation{Operation::What::apply, arrival.source});
  }
  return {};
}

void TfPsServer::enqueue(std::size_t view, Operation operation) {
  variables_[view].waiting.push_back(operation);
  advance(view);
}

void TfPsServer::advance(std::size_t view) {
  Variable& variable = variables_[view];
  while (!variable.waiting.empty()) {
    const Operation next = variable.waiting.front();
    if (next.what == Operation::What::apply && variable.being_sent > 0) return;
    variable.waiting.pop_front();
    if (next.what == Operation::What::read) {
      read(view, next.worker);
    } else if (options_.synchronous()) {
      apply_mean(view);
    } else {
      apply_gradient(view, next.worker);
    }
  }
}

void TfPsServer::read(std::size_t view, int worker) {
  Worker& reader = this->worker(worker);
  if (!reader.updates_at_read) reader.updates_at_read = updates_;
  note(TfPsEvent::What::read, worker, view, reader.step);
  ++variables_[view].being_sent;
  reply(send_variable(view, worker, tf_ps::kind::weights, Traffic::data));
}

base::Task<base::Result<void>> TfPsServer::send_variable(std::size_t view, int worker,
                                                         transport::Kind kind, Traffic traffic) {
  const compute::ParameterView& variable = context_.arena.views()[view];
  const bool slots = kind == tf_ps::kind::settled_slots;
  const std::span<float> all = slots ? context_.optimizer.momentum() : context_.arena.parameters();
  transport::Write write(worker, slots ? tf_ps::region::slots : tf_ps::region::parameters,
                         variable.offset * sizeof(float),
                         std::as_bytes(all.subspan(variable.offset, variable.size)),
                         Notification{kind, tf_ps::number_of(view)}, traffic);
  auto written = co_await context_.endpoint.write(write);
  --variables_[view].being_sent;
  if (written) advance(view);
  co_return written;
}

void TfPsServer::apply_gradient(std::size_t view, int worker) {
  Worker& giver = this->worker(worker);
  note(TfPsEvent::What::applied, worker, view, updates_);
  context_.optimizer.update(updates_, context_.arena.views()[view].range(), scratch(view, worker));
  if (++giver.gradients < placement_.variables(rank_).size()) return;
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

void TfPsServer::gather(std::size_t view, int worker) {
  Variable& variable = variables_[view];
  Worker& giver = this->worker(worker);
  note(TfPsEvent::What::gathered, worker, view, giver.step);
  auto& gathered = variable.gathered;
  const bool joins = giver.step == variable.step && static_cast<int>(gathered.size()) < needed() &&
                     std::find(gathered.begin(), gathered.end(), worker) == gathered.end();
  if (joins) {
    gathered.push_back(worker);
    if (options_.arrival_order && gathered.size() > 1) {
      context_.kernels.add(scratch(view, gathered.front()), scratch(view, worker));
    }
  }
  giver.staleness = std::max(giver.staleness, variable.step - std::min(variable.step, giver.step));
  ++giver.gradients;
  giver.waits_for_token = giver.gradients == placement_.variables(rank_).size();
  if (joins && static_cast<int>(gathered.size()) == needed()) {
    enqueue(view, Operation{Operation::What::apply, -1});
  }
  give_tokens();
}

void TfPsServer::apply_mean(std::size_t view) {
  Variable& variable = variables_[view];
  auto& gathered = variable.gathered;
  if (!options_.arrival_order) {
    std::sort(gathered.begin(), gathered.end());
    for (std::size_t i = 1; i < gathered.size(); ++i) {
      context_.kernels.add(scratch(view, gathered.front()), scratch(view, gathered[i]));
    }
  }
  const std::span<float> sum = scratch(view, gathered.front());
  if (gathered.size() > 1) {
    context_.kernels.scale(sum, 1.0F / static_cast<float>(gathered.size()));
  }
  note(TfPsEvent::What::applied, -1, view, variable.step);
  context_.optimizer.update(variable.step, context_.arena.views()[view].range(), sum);
  ++variable.step;
  gathered.clear();
  give_tokens();
}

std::uint64_t TfPsServer::step_of_all() const {
  std::uint64_t step = variables_[placement_.variables(rank_).front()].step;
  for (const std::size_t view : placement_.variables(rank_)) {
    step = std::min(step, variables_[view].step);
  }
  return step;
}

void TfPsServer::give_tokens() {
  if (placement_.variables(rank_).empty()) return;
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
  for (Variable& each : variables_) each.gathered.clear();
  note(TfPsEvent::What::settled, -1, 0, 0);
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
    ++variables_[view].being_sent;
    reply(send_variable(view, 0, tf_ps::kind::settled_weights, Traffic::apart));
    if (!with_slots) continue;
    ++variables_[view].being_sent;
    reply(send_variable(view, 0, tf_ps::kind::settled_slots, Traffic::apart));
  }
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
