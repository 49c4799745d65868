#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/local_launcher.h"
#include "cluster/report_pipe.h"
#include "cluster/tcp_link.h"
#include "exit_status.h"
#include "metrics/report.h"
#include "run_view.h"
#include "succession.h"
#include "train_modes.h"
#include "training/real_rank.h"
#include "transport/tcp/wire.h"

namespace dlobd::app {

namespace {

int exit_code_of(const base::Result<training::End>& end) {
  if (!end) return kFailed;
  switch (*end) {
    case training::End::finished: return 0;
    case training::End::interrupted: return kInterrupted;
    case training::End::target_missed: return kTargetMissed;
  }
  return kFailed;
}

void tell_launcher(cluster::ReportPipe& pipe, const base::Error& error) {
  pipe.write(metrics::encode(metrics::RankFailed{error}));
  complain(error);  // among its output
}

// Started by our launcher: reports go down its pipe, it writes the record and says how it ended.
int run_launched(const Resolved& resolved, training::Placement placement,
                 const training::Replicas& replicas) {
  if (placement.rank == 0) placement.listen_fd = cluster::kListenFd;
  cluster::ReportPipe pipe(cluster::kReportFd);
  training::Observers observers;
  observers.own = [&pipe](metrics::Blob blob) { pipe.write(std::move(blob)); };
  const auto end =
      training::run_real_rank(resolved.config, placement, resolved.dataset, replicas, observers);
  if (!end) tell_launcher(pipe, end.error());
  return exit_code_of(end);
}

// How long the others wait for the record.
base::Duration record_patience(const training::Config& config) {
  return std::max<base::Duration>(std::chrono::seconds(30), 3 * config.peer_timeout);
}

void complain_of_slow_record(base::Duration patience) {
  complain(base::Error(
      base::ErrorKind::deadline_exceeded,
      fmt::format("the other ranks were let go before the record was on disk: it took more than "
                  "{} s to write",
                  std::chrono::duration_cast<std::chrono::seconds>(patience).count())));
}

// Started by the user. Rank 0 hears of all and writes; the others keep their own reports: when rank
// 0 is lost, the lowest of them writes what it has.
int run_alone(const TrainOptions& options, const Resolved& resolved, training::Placement placement,
              const training::Replicas& replicas) {
  const bool writes = placement.rank == 0;
  // A rank that writes nothing shows nothing either.
  std::optional<RunView> view;
  const auto open_view = [&] {
    view.emplace(resolved.config, resolved.dataset.count(records::Part::train),
                 metrics::RunSource::measured, options.json);
  };
  if (writes) open_view();
  std::vector<metrics::Blob> kept;
  bool let_go_early = false;
  const auto news = std::make_shared<cluster::HubNews>();
  training::Observers observers;
  observers.news = news;
  if (writes) {
    observers.shipped = [&view](int rank, metrics::Blob blob) { view->add(rank, std::move(blob)); };
    observers.record = [&](training::End end) { view->write(end, news->run); };
    observers.record_patience = record_patience(resolved.config);
    observers.let_go_early = [&let_go_early] { let_go_early = true; };
  } else {
    observers.kept = [&kept](const metrics::Blob& blob) { kept.push_back(blob); };
  }
  const auto end =
      training::run_real_rank(resolved.config, placement, resolved.dataset, replicas, observers);
  const bool lost = !end && end.error().kind == base::ErrorKind::peer_lost;
  const Succession succession(resolved.config.out, news->run, placement.rank);
  // Others have written where this rank was given up and runs again.
  if (writes && !view->is_written() && !(lost && succession.is_over())) {
    view->write(end, succession.run());
  } else if (!writes && lost && news->hub_lost &&
             succession.falls_to_this_rank(resolved.config.peer_timeout / 2)) {
    open_view();
    view->warn(fmt::format(
        "rank 0, which was to write this record, is lost: it holds what rank {} has measured",
        placement.rank));
    for (auto& blob : kept) view->add(placement.rank, std::move(blob));
    view->write(end, succession.run());
  }
  if (view && view->is_written()) {
    const int status = view->show();
    if (let_go_early) complain_of_slow_record(observers.record_patience);
    return status;
  }
  view.reset();  // its line ends before another begins
  if (!end) complain(end.error());
  const int status = exit_code_of(end);
  return status == kTargetMissed ? kFailed : status;
}

// A host's name that means another host, or the host itself alone, would leave the others waiting.
base::Result<int> listen_for_hub(const TrainOptions& options) {
  auto fd = cluster::listen_on(options.rendezvous);
  if (options.rendezvous_by.empty()) return fd;
  if (!fd) {
    return base::fail(fd.error().while_doing(fmt::format(
        "listening where {} has it: --rendezvous names another place", options.rendezvous_by)));
  }
  constexpr std::string_view kLoopback = "127.";
  const std::string bound = cluster::local_address(*fd);
  if (!bound.starts_with(kLoopback) || options.rendezvous.starts_with(kLoopback) ||
      options.rendezvous.starts_with("localhost")) {
    return fd;
  }
  ::close(*fd);
  return base::fail(base::ErrorKind::invalid_argument,
                    fmt::format("no other host can reach rank 0 by its name: give --rendezvous "
                                "ADDRESS:PORT: {} is {} here",
                                options.rendezvous, bound));
}

}  // namespace

int train_rank(const TrainOptions& options, const Resolved& resolved) {
  training::Placement placement;
  placement.rank = static_cast<int>(*options.rank);
  placement.rendezvous = options.rendezvous;
  placement.network.connections_per_peer = static_cast<int>(options.connections_per_peer);
  placement.network.device = options.device;
  placement.network.port = static_cast<int>(options.port);
  if (options.gid_index) placement.network.gid_index = static_cast<int>(*options.gid_index);
  const char* secret = std::getenv("DLOBD_JOB_TOKEN");
  placement.token = secret == nullptr || *secret == '\0' ? options.token : secret;
  if (placement.token.empty()) {
    complain(base::Error(
        base::ErrorKind::invalid_argument,
        "set DLOBD_JOB_TOKEN to one secret on all ranks: it keeps strangers out of the job"));
    return kRefused;
  }
  if (placement.token.size() > transport::tcp::kMaxTokenBytes) {
    complain(base::Error(base::ErrorKind::invalid_argument,
                         fmt::format("DLOBD_JOB_TOKEN is too long: {} of at most {} bytes",
                                     placement.token.size(), transport::tcp::kMaxTokenBytes)));
    return kRefused;
  }
  unsetenv("DLOBD_JOB_TOKEN");
  if (!options.launched && placement.rank == 0) {
    const auto fd = listen_for_hub(options);
    if (!fd) {
      complain(fd.error());
      return kRefused;
    }
    placement.listen_fd = *fd;
  }
  if (!options.launched && placement.rank > 0) {
    if (auto known = cluster::wait_for_name(options.rendezvous); !known) {
      complain(known.error());
      return kRefused;
    }
  }
  const char* kernel = std::getenv("OPENBLAS_CORETYPE");
  auto replicas =
      training::Replicas::load(resolved.config, resolved.model, kernel != nullptr ? kernel : "");
  if (!replicas && options.launched) {
    cluster::ReportPipe pipe(cluster::kReportFd);
    tell_launcher(pipe, replicas.error());
    return kFailed;
  }
  if (!replicas) {
    complain(replicas.error());
    return kRefused;
  }
  return options.launched ? run_launched(resolved, placement, *replicas)
                          : run_alone(options, resolved, placement, *replicas);
}

}  // namespace dlobd::app
