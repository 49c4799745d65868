// A pair of connected links on one loop: rank 0's own link to the hub beside it, and every link of
// a simulation. Frames arrive in order after the latency that the options name, zero without one.
// Faults for simulation: close_after() is what both ends see of a killed process or a cut cable,
// silence() what they see of a stopped process or a black hole: nothing arrives any more, nor an
// end.
#pragma once

#include <functional>
#include <memory>

#include "base/loop.h"
#include "cluster/link.h"

namespace dlobd::cluster {

struct InProcessOptions {
  // Of each frame, asked at its send(). Also the delay of the end after a close().
  std::function<base::Duration()> latency;
  // Asked when a frame or an end would arrive: true makes it vanish. For faults that a plan
  // decides.
  std::function<bool()> silent;
};

// The fault switches of one pair. May outlive the links.
class InProcessFaults {
 public:
  // Both ends see an end after `delay`; frames still under way are lost.
  void close_after(base::Duration delay);
  void silence();

  struct Wire;
  explicit InProcessFaults(std::shared_ptr<Wire> wire);

 private:
  std::shared_ptr<Wire> wire_;  // shared with both links
};

struct InProcessPair {
  std::unique_ptr<Link> first;
  std::unique_ptr<Link> second;
  InProcessFaults faults;
};

InProcessPair in_process_pair(base::Loop& loop, InProcessOptions options = {});

}  // namespace dlobd::cluster
