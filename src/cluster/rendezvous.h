// Who may join a job, and who has: the hub's side of the hellos, without links or clocks. A hello
// is refused by what is wrong with it, the token first, so that a stranger learns nothing else.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cluster/membership.h"
#include "cluster/messages.h"

namespace dlobd::cluster {

class Rendezvous {
 public:
  explicit Rendezvous(JobIdentity identity);

  // Why this hello is refused, in words for the one who said it; empty: it is good.
  [[nodiscard]] std::string objection(const Hello& hello);
  // A rank whose hello was good.
  void admit(const Hello& hello);
  [[nodiscard]] bool complete() const { return admitted_ == hosts_.size(); }
  // For those who have joined, when the time for it is over: which ranks have not, and why not as
  // far as it is known.
  [[nodiscard]] Refuse incomplete(base::Duration join_timeout) const;

 private:
  [[nodiscard]] std::string difference(const Hello& hello) const;

  JobIdentity identity_;
  std::vector<std::optional<std::string>> hosts_;  // by rank, of those who have joined
  std::size_t admitted_ = 0;
  std::map<int, std::string> refused_;  // the last refusal of who had the token, by rank
};

}  // namespace dlobd::cluster
