// One rank of a job, from joining to leaving: the same on both clocks, whoever made its parts.
//
//   join        the membership; a link that breaks becomes a suspicion, a verdict fails the
//               endpoint
//   connect     the exchange or the service registers its memory, descriptors are gathered, links
//               are made
//   agree       on the steps of an epoch, from every worker's own shard, and on the start
//   train       a worker: the step loop; a server: its service
//   leave       in order; or, after a failure, once the cause is known on all ranks
//
// Errors: peer_lost with the one culprit that all survivors name; else this rank's own, which
// becomes the verdict for the others. Reports go out in both cases. Belongs to the loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/loop.h"
#include "base/result.h"
#include "cluster/membership.h"
#include "compute/kernels.h"
#include "compute/replica.h"
#include "compute/worker.h"
#include "metrics/report.h"
#include "records/dataset.h"
#include "storage/store.h"
#include "training/config.h"
#include "training/feed.h"
#include "training/step_loop.h"
#include "transport/endpoint.h"

namespace dlobd::training {

class Rank {
 public:
  struct Parts {
    base::Loop& loop;
    const Config& config;
    int rank;
    const records::Dataset& dataset;
    storage::WritableStore& store;
    std::unique_ptr<compute::Worker> worker;    // for the feed, the local optimizer and files
    std::unique_ptr<compute::Replica> replica;  // of a worker
    std::unique_ptr<compute::ParameterArena> parameters;  // of a server, as a replica starts
    std::unique_ptr<transport::Endpoint> endpoint;
    std::function<void(metrics::RankSummary&)> summarize_network;
    const compute::Kernels& kernels;
    metrics::Environment environment;
    bool read_ahead;
    std::function<void(metrics::Blob)> ship;         // where reports go; empty: to the hub's rank
    std::function<void(const metrics::Blob&)> kept;  // hears a copy of what went to the hub's rank
  };

  explicit Rank(Parts parts);

  base::Task<base::Result<End>> run(std::unique_ptr<cluster::Link> link,
                                    cluster::JobIdentity identity);

  // A user asks for an end: all ranks stop after one agreed step. False: the
  // ranks have not met yet, so there is nothing to agree upon.
  bool request_stop();

  // How its part of the work ended, before it left; nothing: not yet, or not well.
  [[nodiscard]] std::optional<End> done() const { return done_; }

 private:
  base::Task<base::Result<End>> take_part();
  base::Task<base::Result<End>> train(Position from, const batches::EpochPlan& plan);
  base::Task<base::Result<End>> serve(Position from);
  base::Task<base::Result<void>> connect();
  [[nodiscard]] bool is_worker() const { return parts_.replica != nullptr; }
  compute::ParameterArena& arena();
  base::Task<base::Result<batches::EpochPlan>> agree();
  base::Task<base::Result<void>> agree_on_start(Position from);
  base::Task<base::Result<Position>> start_position(std::uint64_t steps_per_epoch);
  void report_start();
  void report_end(metrics::RankSummary summary);
  void watch();

  Parts parts_;
  metrics::Phases phases_;
  metrics::Reporter reporter_;
  std::unique_ptr<cluster::Member> member_;
  exchange::Optimizer optimizer_;
  std::unique_ptr<exchange::Exchange> exchange_;  // of a worker
  std::unique_ptr<exchange::Service> service_;    // of a server
  // After what it has registered: it goes first.
  std::unique_ptr<transport::Endpoint> endpoint_;
  Feed feed_;
  base::Time clock_start_{0};
  std::int64_t cpu_start_ns_ = 0;
  std::optional<End> done_;
  std::optional<cluster::Verdict> verdict_;
  base::Event verdict_known_;
};

}  // namespace dlobd::training
