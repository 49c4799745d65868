// One rank of a real job, in this process: its loop on the calling thread, computation on another,
// bytes over TCP or RDMA. Rank 0 also has the hub. SIGINT, SIGTERM and SIGHUP ask for an agreed
// end, a second one ends at once; those that the parent has set to be ignored stay so.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "cluster/membership.h"
#include "metrics/report.h"
#include "records/dataset.h"
#include "training/config.h"
#include "training/network.h"
#include "training/replicas.h"
#include "training/step_loop.h"

namespace dlobd::training {

struct Placement {
  int rank = 0;
  std::string rendezvous;  // host:port of the hub
  int listen_fd = -1;      // rank 0: the hub's socket where a launcher has bound it already
  std::string token;       // secret of the job
  NetworkSeat network;     // what the rank, the rendezvous and the token do not say already
};

struct Observers {
  // This rank's reports. Empty: they go to rank 0.
  std::function<void(metrics::Blob)> own;
  // A copy of this rank's reports that went to rank 0.
  std::function<void(const metrics::Blob&)> kept;
  // On rank 0: the reports that ranks have sent it, its own included.
  std::function<void(int rank, metrics::Blob)> shipped;
  // On rank 0, of a run that ended well: writes down what was shipped. On a thread of its own,
  // while the other ranks wait to be let go: should this one be lost before it has, they know. Done
  // when run_real_rank() returns. May be empty.
  std::function<void(End)> record;
  // How long the others wait for it at most.
  base::Duration record_patience = std::chrono::seconds(30);
  // Called where they have waited so long. May be empty.
  std::function<void()> let_go_early;
  // What this rank hears of its hub; may be null.
  std::shared_ptr<cluster::HubNews> news;
};

// Blocks until the rank has ended. Errors as Rank's; before that: a busy port, an interface that is
// not there, a hub that does not answer.
base::Result<End> run_real_rank(const Config& config, const Placement& placement,
                                const records::Dataset& dataset, const Replicas& replicas,
                                const Observers& observers);

}  // namespace dlobd::training
