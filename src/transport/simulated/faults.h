// What has gone wrong in a simulated cluster, and who wants to hear of it. The data links of
// simulated::Network follow it; simulated control links can follow the same one by on_change().
//
//   kill(rank)     the process is gone: its connections end (SIGKILL)
//   stop(rank)     the process does nothing any more, its connections stay (SIGSTOP)
//   cut(a, b)      the connections between two ranks end at both sides
//   cut_off(rank)  nothing reaches the rank or comes from it, and nobody is told (a pulled cable)
//
// Faults never heal. Belongs to the loop's thread.
#pragma once

#include <functional>
#include <set>
#include <utility>
#include <vector>

namespace dlobd::transport::simulated {

struct Fault {
  enum class Kind { kill, stop, cut, cut_off };
  Kind kind;
  int rank;
  int peer;  // of cut only

  static Fault kill(int rank) { return {Kind::kill, rank, -1}; }
  static Fault stop(int rank) { return {Kind::stop, rank, -1}; }
  static Fault cut(int a, int b) { return {Kind::cut, a, b}; }
  static Fault cut_off(int rank) { return {Kind::cut_off, rank, -1}; }

  // Do bytes between the two still arrive after it?
  [[nodiscard]] bool concerns(int a, int b) const {
    if (kind == Kind::cut) return (rank == a && peer == b) || (rank == b && peer == a);
    return rank == a || rank == b;
  }
};

class Faults {
 public:
  using Listener = std::function<void(const Fault&)>;

  void strike(const Fault& fault) {
    switch (fault.kind) {
      case Fault::Kind::kill: killed_.insert(fault.rank); break;
      case Fault::Kind::stop: stopped_.insert(fault.rank); break;
      case Fault::Kind::cut: cut_.insert(std::minmax(fault.rank, fault.peer)); break;
      case Fault::Kind::cut_off: cut_off_.insert(fault.rank); break;
    }
    // By index: a listener may add another.
    for (std::size_t i = 0; i < listeners_.size(); ++i) listeners_[i](fault);
  }

  [[nodiscard]] bool alive(int rank) const { return !killed_.contains(rank); }
  [[nodiscard]] bool is_stopped(int rank) const { return stopped_.contains(rank); }
  [[nodiscard]] bool is_cut(int a, int b) const { return cut_.contains(std::minmax(a, b)); }
  [[nodiscard]] bool is_cut_off(int rank) const { return cut_off_.contains(rank); }
  // Would bytes that are sent now reach a process that reads them?
  [[nodiscard]] bool passes(int from, int to) const {
    return alive(from) && alive(to) && !is_stopped(from) && !is_stopped(to) && !is_cut(from, to) &&
           !is_cut_off(from) && !is_cut_off(to);
  }

  // Called after each fault, for as long as this object lives, in the order of the calls.
  void on_change(Listener listener) { listeners_.push_back(std::move(listener)); }

 private:
  std::set<int> killed_, stopped_, cut_off_;
  std::set<std::pair<int, int>> cut_;
  std::vector<Listener> listeners_;
};

}  // namespace dlobd::transport::simulated
