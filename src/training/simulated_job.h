// All ranks of a job in this process and thread, over a simulated network in virtual time: the very
// code that a real rank runs. Gradients are real (unless a profile stands for the computation,
// whose times then pass on the virtual clock); libtorch's own time does not pass there. Control
// links suffer the faults of the network too: what kills a rank ends its link to the hub, what
// stops it or cuts it off silences that link.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "cluster/membership.h"
#include "metrics/report.h"
#include "records/dataset.h"
#include "storage/local.h"
#include "training/config.h"
#include "training/rank.h"
#include "training/replicas.h"
#include "transport/simulated/network.h"

namespace dlobd::training {

class SimulatedJob {
 public:
  using OnReport = std::function<void(int rank, metrics::Blob)>;

  // All arguments outlive the job. `on_report` hears every rank's reports as they come.
  static base::Result<std::unique_ptr<SimulatedJob>> make(const Config& config,
                                                          const records::Dataset& dataset,
                                                          const Replicas& replicas,
                                                          OnReport on_report);

  base::VirtualLoop& loop() { return loop_; }
  transport::simulated::Network& network() { return network_; }
  Rank& rank(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  compute::ParameterArena& arena(int rank) { return *arenas_[static_cast<std::size_t>(rank)]; }

  // Runs until nothing is left that could happen, and gives how each rank ended: nothing for one
  // that waits for ever. SIGINT, SIGTERM and SIGHUP ask for an agreed end.
  std::vector<std::optional<base::Result<End>>> run();
  // When, by rank; zero for one that has not ended.
  [[nodiscard]] const std::vector<base::Time>& end_times() const { return end_times_; }

 private:
  base::Task<void> run_rank(int rank, std::unique_ptr<cluster::Link> link);
  SimulatedJob(const Config& config, OnReport on_report);
  base::Result<void> add_rank(int rank, const records::Dataset& dataset, const Replicas& replicas,
                              const metrics::Environment& environment);

  const Config& config_;
  OnReport on_report_;
  base::VirtualLoop loop_;
  storage::LocalStore store_;
  transport::simulated::Network network_;
  cluster::JobIdentity identity_;
  std::unique_ptr<cluster::Hub> hub_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<compute::ParameterArena*> arenas_;
  std::vector<std::optional<base::Result<End>>> ends_;
  std::vector<base::Time> end_times_;
};

// The end of the job as a whole: the first rank's error if one has any.
base::Result<End> job_end(const std::vector<std::optional<base::Result<End>>>& ends);

}  // namespace dlobd::training
