// Which of the workers' passes BigDL's driver goes on without: the rule of its DistriOptimizer, on
// plain values.
//
//   limit()        none for `warm_up` iterations, and `every` more in which times are gathered;
//                  from then on a threshold, which is taken anew each `every` iterations
//   the threshold  k = `share` of the passes of those iterations should have been cut off, d have
//                  been. k > d: the (k - d)-th largest of the times, in which a pass that was cut
//                  off counts as 0. Otherwise it was too short: 1.01 times what it was
//   an iteration   whose finished passes are fewer than 1 - `most` of all is discarded: it makes no
//                  update and is no iteration to this rule, but what it cut off counts in d
//
// A threshold that most passes exceed for good is therefore never corrected: BigDL has no way out
// of that either.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"

namespace dlobd::exchange {

// Shares are fractions: 0.04 is 4 of 100 passes.
struct BigDlDrop {
  double share = 0;  // 0: all passes are waited for
  double most = 0.5;
  std::uint64_t warm_up = 200;  // iterations
  std::uint64_t every = 100;    // iterations

  // k: how many passes of `every` iterations of so many workers should be cut off.
  [[nodiscard]] std::uint64_t wanted(int workers) const;
};

namespace bigdl {

class DropRule {
 public:
  DropRule(BigDlDrop options, int workers);

  // How long a pass of this iteration may take. Nothing: as long as it takes.
  [[nodiscard]] std::optional<base::Duration> limit() const;
  // A pass of this iteration was over in time; each worker's once at most.
  void finish(int worker, base::Duration time);
  // Ends the iteration: how many passes were over in time, or 0 where they are too few.
  int end_iteration();

 private:
  void take_threshold();

  BigDlDrop options_;
  int workers_;
  std::uint64_t iteration_ = 0;
  int finished_ = 0;                   // in this iteration
  std::uint64_t dropped_ = 0;          // since the threshold was taken
  std::vector<base::Duration> times_;  // of the last `every` iterations, by worker in each
  std::optional<base::Duration> threshold_;
};

}  // namespace bigdl
}  // namespace dlobd::exchange
