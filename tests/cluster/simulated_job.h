// A whole job in virtual time for tests: a hub and N members over in-process links with seeded
// latencies, each rank running a script, and a fault that hits one rank at one time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "cluster/in_process_link.h"
#include "cluster/membership.h"

namespace dlobd::cluster::testing {

using namespace std::chrono_literals;

enum class FaultKind { none, killed, stopped, cut };

struct SimulatedRank {
  std::unique_ptr<Member> member;
  std::optional<base::Error> error;  // of join, a call, or leave
  std::optional<Verdict> verdict;
  base::Time judged{-1};  // when the verdict or the failed join was known
  base::Time ended{-1};   // when the script ended
  std::optional<std::uint64_t> last_step;
  std::string phase = "start";  // where the script is
};

class SimulatedJob {
 public:
  SimulatedJob(int ranks, std::uint64_t seed) : random(base::Random::of({seed, 7})), seed_(seed) {
    identity.token = "secret";
    identity.version = "0.1.0";
    identity.configuration = "learning_rate=0.01\nseed=7\n";
    identity.world_size = ranks;
    options.peer_timeout = 1s;
    options.join_timeout = 5s;
    for (int rank = 0; rank < ranks; ++rank) at.emplace_back();
  }

  void start_hub() { hub = Hub::make(loop, identity, options); }

  // A link to the hub, as rank `rank` would have it.
  std::unique_ptr<Link> connect(int rank) {
    InProcessOptions wire;
    auto latencies = std::make_shared<base::Random>(
        base::Random::of({seed_, 11, static_cast<std::uint64_t>(rank)}));
    wire.latency = [latencies] { return base::Duration(10'000 + latencies->below(3'000'000)); };
    auto pair = in_process_pair(loop, std::move(wire));
    if (rank == faulty || faulty == 0) wires.push_back(pair.faults);
    if (struck && (rank == faulty || faulty == 0)) strike_wire(pair.faults);
    hub->accept(std::move(pair.second));
    return std::move(pair.first);
  }

  void plan_fault(FaultKind fault, int rank, base::Time when) {
    kind = fault;
    faulty = rank;
    loop.call_at(when, [this] {
      struck = loop.now();
      struck_phase = at[static_cast<std::size_t>(faulty)].phase;
      for (auto& wire : wires) strike_wire(wire);
    });
  }

  SimulatedRank& operator[](int rank) { return at[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int ranks() const { return identity.world_size; }
  [[nodiscard]] bool all_ended() const {
    for (const auto& rank : at) {
      if (rank.ended < base::Time::zero()) return false;
    }
    return true;
  }

  base::VirtualLoop loop;
  JobIdentity identity;
  Member::Options options;
  std::unique_ptr<Hub> hub;
  base::Random random;
  std::vector<SimulatedRank> at;
  FaultKind kind = FaultKind::none;
  int faulty = -1;
  std::optional<base::Time> struck;
  std::string struck_phase;
  bool strike_at_stop = false;         // the fault comes just after a rank has asked to stop
  std::vector<InProcessFaults> wires;  // that the fault hits

 private:
  void strike_wire(InProcessFaults& wire) {
    switch (kind) {
      case FaultKind::none: break;
      case FaultKind::killed: wire.close_after(base::Duration(random.below(20'000'000))); break;
      case FaultKind::cut: wire.close_after(base::Duration::zero()); break;
      case FaultKind::stopped: wire.silence(); break;
    }
  }

  std::uint64_t seed_;
};

}  // namespace dlobd::cluster::testing
