// The all-gathers of a job that are under way, on the hub, without links or clocks: what has come
// from whom, what is complete, and what can never be.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cluster/membership.h"
#include "cluster/messages.h"

namespace dlobd::cluster {

class Gathers {
 public:
  explicit Gathers(int ranks) : begun_(static_cast<std::size_t>(ranks)), aside_(begun_.size()) {}

  // Is this the one that `rank` is to begin next?
  [[nodiscard]] bool in_order(int rank, const Gather& gather) const;
  // Takes the blob of one that is in order. Otherwise: how `rank` has lost the others' order.
  [[nodiscard]] std::optional<std::string> add(int rank, Gather gather);
  // Nothing more is waited for from this rank.
  void stand_aside(int rank) { aside_[static_cast<std::size_t>(rank)] = true; }
  // Those to which all have come, the oldest first; each is given out once.
  [[nodiscard]] std::vector<Gathered> take_complete();
  // Does one that is under way lack this rank?
  [[nodiscard]] bool lacks(int rank) const;

 private:
  struct Collection {
    std::string what;
    int first = 0;  // the rank that came first and named it
    std::vector<Blob> blobs;
  };

  std::vector<std::uint64_t> begun_;  // by rank: how many
  std::vector<bool> aside_;
  std::map<std::uint64_t, Collection> collections_;  // by sequence
};

}  // namespace dlobd::cluster
