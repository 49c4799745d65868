#include "exchange/oracle_tf_ps.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace dlobd::exchange {
namespace {

std::size_t place(int rank) {
  return static_cast<std::size_t>(rank);
}

struct JoinedGradient {
  int worker;
  std::uint64_t step;  // of the worker's own count
};

}  // namespace

struct TfPsOracle::Server {
  int rank;
  std::vector<std::size_t> views;
  std::vector<std::map<std::size_t, std::uint64_t>> reads;    // by worker, by view: how many
  std::vector<std::map<std::size_t, std::uint64_t>> given;    // likewise: gradients
  std::vector<std::size_t> given_in_step;                     // by worker
  std::vector<std::optional<std::uint64_t>> updates_at_read;  // by worker, in its step
  std::uint64_t updates = 0;
  std::map<std::size_t, std::uint64_t> steps;                 // synchronous, by view
  std::map<std::size_t, std::vector<JoinedGradient>> joined;  // likewise
  std::size_t meetings = 0;
};

TfPsOracle::TfPsOracle(std::vector<compute::ParameterView> views, Values parameters, Values slots,
                       Layout layout, TfPsOptions options, OptimizerSettings settings,
                       std::uint64_t first_step)
    : views_(std::move(views)),
      parameters_(std::move(parameters)),
      slots_(std::move(slots)),
      layout_(layout),
      options_(options),
      settings_(std::move(settings)),
      first_step_(first_step),
      weights_(place(layout.workers)),
      staleness_(place(layout.workers)) {}

void TfPsOracle::wrong(const Server& server, const std::string& what) {
  if (problem_.empty()) problem_ = fmt::format("server {}: {}", server.rank, what);
}

void TfPsOracle::replay(int server_rank, const std::vector<TfPsEvent>& log,
                        const Gradients& gradients) {
  Server server;
  server.rank = server_rank;
  for (std::size_t view = 0; view < views_.size(); ++view) {
    const auto servers = place(layout_.servers);
    if (view % servers == place(server_rank - layout_.workers)) server.views.push_back(view);
  }
  server.reads.resize(weights_.size());
  server.given.resize(weights_.size());
  server.given_in_step.resize(weights_.size());
  server.updates_at_read.resize(weights_.size());
  server.updates = first_step_ * weights_.size();
  for (const std::size_t view : server.views) server.steps[view] = first_step_;
  for (const TfPsEvent& event : log) {
    const bool owned =
        std::find(server.views.begin(), server.views.end(), event.view) != server.views.end();
    if (event.what != TfPsEvent::What::settled && !owned) wrong(server, "a variable of others");
    switch (event.what) {
      case TfPsEvent::What::read: read(server, event); break;
      case TfPsEvent::What::gathered: gather(server, event); break;
      case TfPsEvent::What::applied:
        if (options_.synchronous()) {
          apply_mean(server, event, gradients);
        } else {
          apply_gradient(server, event, gradients);
        }
        break;
      case TfPsEvent::What::settled: meet(server); break;
    }
  }
  check_end(server);
}

void TfPsOracle::read(Server& server, const TfPsEvent& event) {
  const std::uint64_t step = first_step_ + server.reads[place(event.worker)][event.view]++;
  if (options_.backup_workers == 0 && event.step != step) wrong(server, "a read of another step");
  auto& at_read = server.updates_at_read[place(event.worker)];
  if (!at_read) at_read = server.updates;
  Values& weights = weights_[place(event.worker)][step];
  weights.resize(parameters_.size());
  const compute::ParameterView& view = views_[event.view];
  for (std::size_t i = view.offset; i < view.offset + view.size; ++i) weights[i] = parameters_[i];
}

void TfPsOracle::update(std::uint64_t step, std::size_t view, const Values& gradients) {
  plain_update(views_, settings_, step, views_[view].range(), parameters_, gradients, slots_);
}

void TfPsOracle::apply_gradient(Server& server, const TfPsEvent& event,
                                const Gradients& gradients) {
  if (event.worker < 0) return wrong(server, "an update of no worker");
  const std::size_t worker = place(event.worker);
  const std::uint64_t step = first_step_ + server.given[worker][event.view]++;
  if (event.step != server.updates) wrong(server, "another learning rate");
  if (server.reads[worker][event.view] != server.given[worker][event.view]) {
    wrong(server, "a gradient applied before its weights were read");
  }
  update(server.updates, event.view, gradients(event.worker, step));
  if (++server.given_in_step[worker] < server.views.size()) return;
  server.given_in_step[worker] = 0;
  if (server.rank == layout_.workers) {
    staleness_[worker][step] =
        server.updates - server.updates_at_read[worker].value_or(server.updates);
  }
  server.updates_at_read[worker].reset();
  ++server.updates;
}

void TfPsOracle::gather(Server& server, const TfPsEvent& event) {
  const std::uint64_t step = first_step_ + server.given[place(event.worker)][event.view]++;
  if (options_.backup_workers == 0 && event.step != step) wrong(server, "a gradient's other step");
  auto& joined = server.joined[event.view];
  const auto needed = place(layout_.workers - options_.backup_workers);
  const bool again =
      std::any_of(joined.begin(), joined.end(),
                  [&event](const JoinedGradient& each) { return each.worker == event.worker; });
  if (event.step > server.steps[event.view]) wrong(server, "a gradient of a step to come");
  if (event.step != server.steps[event.view] || again || joined.size() == needed) return;
  joined.push_back(JoinedGradient{event.worker, step});
}

void TfPsOracle::apply_mean(Server& server, const TfPsEvent& event, const Gradients& gradients) {
  auto& joined = server.joined[event.view];
  if (joined.size() != place(layout_.workers - options_.backup_workers)) {
    return wrong(server, "an update that was not due");
  }
  if (!options_.arrival_order) {
    std::sort(joined.begin(), joined.end(),
              [](const JoinedGradient& a, const JoinedGradient& b) { return a.worker < b.worker; });
  }
  Values mean(parameters_.size());
  const float factor = 1.0F / static_cast<float>(joined.size());
  const compute::ParameterView& view = views_[event.view];
  for (std::size_t i = view.offset; i < view.offset + view.size; ++i) {
    mean[i] = gradients(joined[0].worker, joined[0].step)[i];
    for (std::size_t j = 1; j < joined.size(); ++j) {
      mean[i] += gradients(joined[j].worker, joined[j].step)[i];
    }
    if (joined.size() > 1) mean[i] *= factor;
  }
  update(server.steps[event.view], event.view, mean);
  if (event.step != server.steps[event.view]) wrong(server, "another learning rate");
  ++server.steps[event.view];
  joined.clear();
}

void TfPsOracle::meet(Server& server) {
  const std::size_t meeting = server.meetings++;
  if (settled_parameters_.size() <= meeting) {
    settled_parameters_.emplace_back(parameters_.size());
    settled_slots_.emplace_back(parameters_.size());
  }
  for (const std::size_t each : server.views) {
    const compute::ParameterView& view = views_[each];
    for (std::size_t i = view.offset; i < view.offset + view.size; ++i) {
      settled_parameters_[meeting][i] = parameters_[i];
      settled_slots_[meeting][i] = slots_[i];
    }
    server.joined[each].clear();
    if (server.steps[each] != server.steps[server.views.front()]) {
      wrong(server, "variables met at different steps");
    }
  }
}

// All workers gave as many gradients of every variable as they read weights.
void TfPsOracle::check_end(const Server& server) {
  if (server.views.empty()) return;
  for (std::size_t worker = 0; worker < weights_.size(); ++worker) {
    for (const std::size_t view : server.views) {
      const auto reads = server.reads[worker].find(view);
      const auto given = server.given[worker].find(view);
      if (reads == server.reads[worker].end() || given == server.given[worker].end() ||
          reads->second != given->second) {
        wrong(server, fmt::format("worker {} read and gave variable {} unequally", worker, view));
      }
    }
  }
  if (server.rank == layout_.workers) {
    updates_ = server.steps.at(server.views.front()) - first_step_;
  }
}

const Values& TfPsOracle::weights(int worker, std::uint64_t step) const {
  return weights_.at(place(worker)).at(step);
}

std::uint64_t TfPsOracle::staleness(int worker, std::uint64_t step) const {
  return staleness_.at(place(worker)).at(step);
}

const Values& TfPsOracle::settled_parameters(std::size_t meeting) const {
  return settled_parameters_.at(meeting);
}

const Values& TfPsOracle::settled_slots(std::size_t meeting) const {
  return settled_slots_.at(meeting);
}

}  // namespace dlobd::exchange
