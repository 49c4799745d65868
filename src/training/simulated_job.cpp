#include "training/simulated_job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <asio/signal_set.hpp>
#include <csignal>
#include <functional>
#include <utility>

#include "base/signals.h"
#include "cluster/in_process_link.h"
#include "training/identity.h"

namespace dlobd::training {

namespace {

using transport::simulated::Fault;

transport::simulated::LinkModel link_of(const Config& config) {
  auto link = config.link;
  link.piece_bytes = stacks::piece_bytes(config.design);
  return link;
}

}  // namespace

SimulatedJob::SimulatedJob(const Config& config, OnReport on_report)
    : config_(config),
      on_report_(std::move(on_report)),
      network_(loop_, link_of(config), config.layout().world_size(), config.seed),
      identity_(job_identity(config, "simulated")),
      ends_(static_cast<std::size_t>(config.layout().world_size())),
      end_times_(ends_.size()) {
  cluster::Member::Options options;
  options.peer_timeout = config.peer_timeout;
  hub_ = cluster::Hub::make(loop_, identity_, options);
}

base::Result<std::unique_ptr<SimulatedJob>> SimulatedJob::make(const Config& config,
                                                               const records::Dataset& dataset,
                                                               const Replicas& replicas,
                                                               OnReport on_report) {
  std::unique_ptr<SimulatedJob> job(new SimulatedJob(config, std::move(on_report)));
  metrics::Environment environment = metrics::read_environment();
  replicas.describe(environment);
  for (const char* field :
       {"provider_used", "software_rdma", "interface", "link_speed", "libfabric"}) {
    environment.unknown[field] = "the network is simulated";
  }
  for (int rank = 0; rank < config.layout().world_size(); ++rank) {
    DLOBD_TRY_VOID(added, job->add_rank(rank, dataset, replicas, environment));
  }
  return job;
}

base::Result<void> SimulatedJob::add_rank(int rank, const records::Dataset& dataset,
                                          const Replicas& replicas,
                                          const metrics::Environment& environment) {
  std::unique_ptr<compute::Replica> replica;
  std::unique_ptr<compute::ParameterArena> parameters;
  if (config_.layout().is_worker(rank)) {
    DLOBD_TRY(made, replicas.make(loop_, std::make_unique<compute::InlineWorker>()));
    replica = std::move(made);
  } else {
    parameters = replicas.make_parameters(config_.seed);
  }
  arenas_.push_back(replica ? &replica->arena() : parameters.get());
  Rank::Parts parts{loop_,
                    config_,
                    rank,
                    dataset,
                    store_,
                    std::make_unique<compute::InlineWorker>(),
                    std::move(replica),
                    std::move(parameters),
                    network_.endpoint(rank),
                    [](metrics::RankSummary&) {},
                    compute::cpu_kernels(),
                    environment,
                    false,
                    [this, rank](metrics::Blob blob) { on_report_(rank, std::move(blob)); },
                    {}};
  ranks_.push_back(std::make_unique<Rank>(std::move(parts)));

  auto& faults = network_.faults();
  cluster::InProcessOptions wire;
  wire.latency = [this] { return config_.link.latency; };
  wire.silent = [&faults, rank] {
    return faults.is_stopped(rank) || faults.is_cut_off(rank) || faults.is_stopped(0) ||
           faults.is_cut_off(0);
  };
  auto pair = cluster::in_process_pair(loop_, std::move(wire));
  faults.on_change([this, rank, ends = pair.faults](const Fault& fault) mutable {
    const bool hub_gone = fault.kind == Fault::Kind::kill && fault.rank == 0;
    const bool rank_gone = fault.kind == Fault::Kind::kill && fault.rank == rank;
    if (hub_gone || rank_gone) ends.close_after(config_.link.latency);
  });
  hub_->accept(std::move(pair.first));
  loop_.spawn(run_rank(rank, std::move(pair.second)));
  return {};
}

base::Task<void> SimulatedJob::run_rank(int rank, std::unique_ptr<cluster::Link> link) {
  const auto at = static_cast<std::size_t>(rank);
  auto end = co_await ranks_[at]->run(std::move(link), identity_);
  ends_[at] = std::move(end);
  end_times_[at] = loop_.now();
}

std::vector<std::optional<base::Result<End>>> SimulatedJob::run() {
  asio::signal_set signals(loop_.context());
  base::for_each_ending_signal([&signals](int number) { signals.add(number); });
  // The first signal asks for an agreed end; by the second the user means it.
  bool asked = false;
  std::function<void(const std::error_code&, int)> stop = [&](const std::error_code& error, int) {
    if (error) return;
    if (asked || !ranks_.front()->request_stop()) ::_exit(130);
    asked = true;
    signals.async_wait(stop);
  };
  signals.async_wait(stop);
  loop_.run();
  return ends_;
}

base::Result<End> job_end(const std::vector<std::optional<base::Result<End>>>& ends) {
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    if (!ends[rank]) {
      return base::fail(base::ErrorKind::deadline_exceeded,
                        fmt::format("nothing is left that could wake a rank: rank {}", rank));
    }
    if (!*ends[rank]) return base::fail(ends[rank]->error());
  }
  return *ends.front();
}

}  // namespace dlobd::training
