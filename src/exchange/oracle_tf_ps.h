// What parameter servers must arrive at, bit for bit, given only the order in which each of them
// did things (its log) and the gradients that the workers gave. Which gradients join a sum, when an
// update is due, its learning rate and its arithmetic are worked out here anew, in plain loops;
// a log that does not fit is a problem.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "exchange/oracle.h"
#include "exchange/tf_ps_server.h"

namespace dlobd::exchange {

class TfPsOracle {
 public:
  // What a worker gave in one of its steps.
  using Gradients = std::function<const Values&(int worker, std::uint64_t step)>;

  // The servers start with `parameters` and `slots`, the workers with `first_step`.
  TfPsOracle(std::vector<compute::ParameterView> views, Values parameters, Values slots,
             Layout layout, TfPsOptions options, OptimizerSettings settings,
             std::uint64_t first_step);

  // Once for each server.
  void replay(int server, const std::vector<TfPsEvent>& log, const Gradients& gradients);

  // Empty: every log could be replayed.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] const Values& parameters() const { return parameters_; }
  [[nodiscard]] const Values& slots() const { return slots_; }
  // What a worker computed with in one of its steps.
  [[nodiscard]] const Values& weights(int worker, std::uint64_t step) const;
  // By worker and step, of asynchronous updates.
  [[nodiscard]] std::uint64_t staleness(int worker, std::uint64_t step) const;
  // What held when the workers met for the n-th time.
  [[nodiscard]] const Values& settled_parameters(std::size_t meeting) const;
  [[nodiscard]] const Values& settled_slots(std::size_t meeting) const;
  // Synchronous: updates of the first variable, from the first step on.
  [[nodiscard]] std::uint64_t updates() const { return updates_; }

 private:
  struct Server;

  void read(Server& server, const TfPsEvent& event);
  void apply_gradient(Server& server, const TfPsEvent& event, const Gradients& gradients);
  void gather(Server& server, const TfPsEvent& event);
  void apply_mean(Server& server, const TfPsEvent& event, const Gradients& gradients);
  void meet(Server& server);
  void check_end(const Server& server);
  void wrong(const Server& server, const std::string& what);
  void update(std::uint64_t step, std::size_t view, const Values& gradients);

  std::vector<compute::ParameterView> views_;
  Values parameters_;
  Values slots_;
  Layout layout_;
  TfPsOptions options_;
  OptimizerSettings settings_;
  std::uint64_t first_step_;
  std::uint64_t updates_ = 0;
  std::string problem_;
  std::vector<std::map<std::uint64_t, Values>> weights_;           // by worker, by step
  std::vector<std::map<std::uint64_t, std::uint64_t>> staleness_;  // likewise
  std::vector<Values> settled_parameters_;
  std::vector<Values> settled_slots_;
};

}  // namespace dlobd::exchange
