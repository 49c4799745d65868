#include "training/real_rank.h"

#include <fmt/format.h>
#include <unistd.h>

#include <asio/signal_set.hpp>
#include <csignal>
#include <memory>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/signals.h"
#include "base/waiters.h"
#include "cluster/in_process_link.h"
#include "cluster/tcp_link.h"
#include "compute/worker.h"
#include "metrics/process.h"
#include "metrics/run_folder.h"
#include "storage/local.h"
#include "training/identity.h"
#include "training/rank.h"

namespace dlobd::training {

namespace {

using base::Result;
using base::Task;
using namespace std::chrono_literals;

constexpr base::Duration kJoinTimeout = 60s;
// What the end of the job has woken runs to its own end in this time.
constexpr base::Duration kLinger = 10ms;

class RealRank {
 public:
  RealRank(const Config& config, const Placement& placement, const records::Dataset& dataset,
           const Replicas& replicas, const Observers& observers)
      : config_(config),
        placement_(placement),
        dataset_(dataset),
        replicas_(replicas),
        observers_(observers),
        identity_(job_identity(config, placement.token)),
        recorded_(loop_),
        may_let_go_(loop_),
        signals_(loop_.context()) {
    base::for_each_ending_signal([this](int number) { signals_.add(number); });
    identity_.news = observers.news;
    // Ranks that differ in it would wait for each other in vain: they do not join.
    identity_.configuration +=
        fmt::format("connections_per_peer={}\n", placement.network.connections_per_peer);
  }

  Result<End> run() {
    wait_for_signal();
    loop_.spawn(live());
    loop_.run();
    return *end_;
  }

 private:
  Task<void> live() {
    auto end = co_await join_and_run();
    if (recording_) co_await recorded_.wait();  // a second signal still ends this
    co_await loop_.sleep_for(kLinger);
    end_ = std::move(end);
    loop_.stop();
  }

  Task<Result<End>> join_and_run() {
    auto made = make_rank();
    DLOBD_CO_CHECK(made);
    std::unique_ptr<cluster::Link> link;
    if (placement_.rank == 0) {
      auto opened = open_hub();
      DLOBD_CO_CHECK(opened);
      link = std::move(*opened);
    } else {
      auto dialled =
          co_await cluster::dial(loop_, placement_.rendezvous, loop_.now() + kJoinTimeout);
      DLOBD_CO_CHECK(dialled);
      link = std::move(*dialled);
    }
    co_return co_await rank_->run(std::move(link), identity_);
  }

  Result<std::unique_ptr<cluster::Link>> open_hub() {
    cluster::Member::Options options;
    options.peer_timeout = config_.peer_timeout;
    options.join_timeout = kJoinTimeout;
    DLOBD_TRY(listener, placement_.listen_fd >= 0
                            ? cluster::Listener::from_fd(loop_, placement_.listen_fd)
                            : cluster::Listener::bind(loop_, placement_.rendezvous));
    listener_ = std::move(listener);
    identity_.run = metrics::new_run_id(metrics::iso_time(metrics::process_started_unix_ns()),
                                        run_config(config_).stack);
    hub_ = cluster::Hub::make(loop_, identity_, options);
    if (observers_.shipped) hub_->on_shipped(observers_.shipped);
    if (observers_.record) hub_->before_dismissal([this] { return record(); });
    listener_->on_link(
        [this](std::unique_ptr<cluster::Link> link) { hub_->accept(std::move(link)); });
    auto pair = cluster::in_process_pair(loop_);
    hub_->accept(std::move(pair.first));
    return std::move(pair.second);
  }

  // Holds the others until the record is written or their patience ends.
  Task<void> record() {
    CHECK(rank_->done(), "rank 0 has left before its work was done");
    recording_ = true;
    loop_.spawn(write_record());
    const auto timer = loop_.call_after(observers_.record_patience, [this] {
      if (observers_.let_go_early) observers_.let_go_early();
      may_let_go_.set();
    });
    co_await may_let_go_.wait();
    loop_.cancel(timer);
  }

  Task<void> write_record() {
    compute::ThreadWorker writer(loop_);
    base::UniqueFunction<void()> write = [this] { observers_.record(*rank_->done()); };
    co_await writer.run(std::move(write));
    recorded_.set();
    may_let_go_.set();
  }

  Result<void> make_rank() {
    auto environment = metrics::read_environment();
    NetworkSeat seat = placement_.network;
    seat.rank = placement_.rank;
    seat.rendezvous = placement_.rendezvous;
    seat.token = placement_.token;
    DLOBD_TRY(network, open_network(loop_, config_, seat, environment));
    std::unique_ptr<compute::Replica> replica;
    std::unique_ptr<compute::ParameterArena> parameters;
    if (config_.layout().is_worker(placement_.rank)) {
      DLOBD_TRY(made, replicas_.make(loop_, std::make_unique<compute::ThreadWorker>(loop_)));
      replica = std::move(made);
    } else {
      parameters = replicas_.make_parameters(config_.seed);
    }

    replicas_.describe(environment);
    Rank::Parts parts{loop_,
                      config_,
                      placement_.rank,
                      dataset_,
                      store_,
                      std::make_unique<compute::ThreadWorker>(loop_),
                      std::move(replica),
                      std::move(parameters),
                      std::move(network.endpoint),
                      std::move(network.summarize),
                      compute::cpu_kernels(),
                      std::move(environment),
                      true,
                      observers_.own,
                      observers_.kept};
    rank_ = std::make_unique<Rank>(std::move(parts));
    return {};
  }

  // The first signal asks for an agreed end; by the second the user means it.
  void wait_for_signal() {
    signals_.async_wait([this](const std::error_code& error, int) {
      if (error) return;
      // Nor is there anything to agree upon, or to keep, before the ranks have met.
      if (stop_asked_ || !rank_ || !rank_->request_stop()) ::_exit(130);
      stop_asked_ = true;
      wait_for_signal();
    });
  }

  const Config& config_;
  const Placement& placement_;
  const records::Dataset& dataset_;
  const Replicas& replicas_;
  const Observers& observers_;
  base::RealLoop loop_;
  storage::LocalStore store_;
  cluster::JobIdentity identity_;
  std::unique_ptr<cluster::Listener> listener_;
  std::unique_ptr<cluster::Hub> hub_;
  std::unique_ptr<Rank> rank_;
  bool recording_ = false;
  base::Event recorded_;
  base::Event may_let_go_;
  asio::signal_set signals_;
  bool stop_asked_ = false;
  std::optional<Result<End>> end_;
};

}  // namespace

Result<End> run_real_rank(const Config& config, const Placement& placement,
                          const records::Dataset& dataset, const Replicas& replicas,
                          const Observers& observers) {
  RealRank rank(config, placement, dataset, replicas, observers);
  return rank.run();
}

}  // namespace dlobd::training
