// Who is in the job, that they are all alive, and what ends it. One hub (on rank 0) and one Member
// on each rank, rank 0 included, joined by control links that stay open from rendezvous to the end.
//
//   join       hello{token, version, configuration, rank, world size}; a stranger, a duplicate
//              rank, another version or a setting that differs is refused by name; the deadline
//              names the missing ranks
//   all_gather small blobs, a barrier in one; ranks that gather different things at once have lost
//              each other's order, which ends the job
//   heartbeat  each quarter of the peer time-out, both ways, from the loop's thread
//   suspect    a rank's report that its link to a peer broke. The hub's first verdict wins and
//              goes to all: every survivor names the same culprit. A hub that is gone or silent is
//              itself the culprit (rank 0), whatever else was suspected.
//   stop       an agreed last step: after request_stop() on any rank, each rank holds at most one
//              step ahead until the hub has said the step after which all stop
//   aside      a rank that serves the others (a parameter server) takes no part in what they gather
//              and agree on any more; it stays alive to all, and is lost like any other
//   ship       blobs for the hub's rank (records)
//
// Belongs to the loop's thread. The same code runs over TCP and over simulated links.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "cluster/link.h"

namespace dlobd::cluster {

using Blob = std::vector<std::byte>;

// What a member has heard of its hub, for those who look after the run when the member has gone.
struct HubNews {
  std::string run;        // what the hub calls this run; empty: the rank was never taken in
  bool hub_lost = false;  // its end was not in order
};

struct JobIdentity {
  std::string token;          // secret of the job
  std::string version;        // of the program
  std::string configuration;  // what all ranks must agree on: base/settings.h
  int world_size = 1;
  std::string run;                // of the hub: what it calls this run; may be empty
  std::shared_ptr<HubNews> news;  // of a member: where it writes what it hears; null: nowhere
};

// Why the job ends before its time.
struct Verdict {
  enum class Cause { peer_lost, failed };  // failed: the rank said itself what went wrong
  Cause cause;
  int culprit;
  std::string phase;  // of the culprit, as far as it is known
  std::string reason;
  Verdict(Cause cause, int culprit, std::string phase, std::string reason)
      : cause(cause), culprit(culprit), phase(std::move(phase)), reason(std::move(reason)) {}
  // "peer lost: rank 3, in phase train: no heartbeat for 5.0 s" / "rank 3 failed: loss is nan ..."
  [[nodiscard]] base::Error error() const;
};

// What a rank has sent over its control link, so far. Bytes are those of the blobs.
struct LinkCounters {
  std::uint64_t heartbeats_sent = 0;
  std::uint64_t gathers_sent = 0;
  std::uint64_t gather_bytes_sent = 0;
};

class Member {
 public:
  struct Options {
    base::Duration peer_timeout = std::chrono::seconds(10);
    base::Duration join_timeout = std::chrono::seconds(60);
  };

  // Joins over `link` to the hub. On rank 0 the link leads to the hub beside it.
  static base::Task<base::Result<std::unique_ptr<Member>>> join(base::Loop& loop,
                                                                std::unique_ptr<Link> link,
                                                                JobIdentity identity, int rank,
                                                                Options options);
  virtual ~Member() = default;

  [[nodiscard]] virtual int rank() const = 0;
  // Result[r] is rank r's blob. Calls match up across ranks by order, and must agree on `what` they
  // gather ("shards", at most 32 bytes). Fails with the verdict.
  virtual base::Task<base::Result<std::vector<Blob>>> all_gather(Blob blob,
                                                                 std::string_view what = {}) = 0;
  // What this rank is doing now, for verdicts: "rendezvous", "train", "evaluate", "snapshot",
  // "end".
  virtual void set_phase(std::string phase) = 0;
  virtual void suspect(int peer, std::string reason) = 0;
  // This rank cannot go on; becomes the verdict unless there is one.
  virtual void report_failure(std::string reason) = 0;
  // Called once, when the verdict is known, and at once if it is known already.
  virtual void on_verdict(std::function<void(const Verdict&)> handler) = 0;

  virtual void request_stop() = 0;
  // May step `step` begin? Waits while a stop is being agreed. False: the agreed end lies before
  // it.
  virtual base::Task<base::Result<bool>> may_begin(std::uint64_t step) = 0;

  // From now on the others gather and stop without this rank; it only leaves.
  virtual void stand_aside() = 0;

  virtual void ship(Blob blob) = 0;
  // Orderly end: returns when all ranks have said it. Later ends of links are no failure. After a
  // verdict it fails with that, once what was shipped has come to the hub, at the latest after a
  // peer time-out; call it then too, and close links to peers only after the verdict, or their ends
  // look like failures of this rank.
  virtual base::Task<base::Result<void>> leave() = 0;

  [[nodiscard]] virtual LinkCounters link_counters() const = 0;
};

// The hub's side, on rank 0: accepts links until all ranks have joined, then serves them.
class Hub {
 public:
  static std::unique_ptr<Hub> make(base::Loop& loop, JobIdentity identity, Member::Options options);
  virtual ~Hub() = default;
  // A new link, before its hello. Strangers are refused and forgotten.
  virtual void accept(std::unique_ptr<Link> link) = 0;
  virtual void on_shipped(std::function<void(int rank, Blob blob)> handler) = 0;
  // Run once, when all ranks have said goodbye in a good end and before they are answered: what
  // must be done while they still wait, and still notice if this rank is lost. Heartbeats go on.
  // Set it before the last of them leaves; the hub outlives it.
  virtual void before_dismissal(std::function<base::Task<void>()> task) = 0;
};

}  // namespace dlobd::cluster
