#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <vector>

#include "cluster/local_launcher.h"
#include "cluster/report_pipe.h"
#include "cluster/tcp_link.h"
#include "exit_status.h"
#include "run_view.h"
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

// Started by our launcher: reports go down its pipe, it writes the record and says how it ended.
int run_launched(const Resolved& resolved, training::Placement placement,
                 const training::Replicas& replicas) {
  if (placement.rank == 0) placement.listen_fd = cluster::kListenFd;
  cluster::ReportPipe pipe(cluster::kReportFd);
  training::Observers observers;
  observers.own = [&pipe](metrics::Blob blob) { pipe.write(std::move(blob)); };
  const auto end =
      training::run_real_rank(resolved.config, placement, resolved.dataset, replicas, observers);
  if (!end) complain(end.error());
  return exit_code_of(end);
}

// Started by the user. Rank 0 hears of all; the others keep their own reports, in case that it is
// lost.
int run_alone(const TrainOptions& options, const Resolved& resolved, training::Placement placement,
              const training::Replicas& replicas) {
  const bool writes = placement.rank == 0;
  RunView view(resolved.config, resolved.dataset.count(records::Part::train),
               metrics::RunSource::measured, options.json);
  std::vector<metrics::Blob> kept;
  training::Observers observers;
  if (writes) {
    observers.shipped = [&view](int rank, const metrics::Blob& blob) { view.add(rank, blob); };
  } else {
    observers.kept = [&kept](const metrics::Blob& blob) { kept.push_back(blob); };
  }
  const auto end =
      training::run_real_rank(resolved.config, placement, resolved.dataset, replicas, observers);
  if (writes) return view.finish(end);
  // Rank 0 was to write the record. Rank 1 is the lowest survivor when it is the lost one.
  if (!end && end.error().kind == base::ErrorKind::peer_lost && end.error().rank == 0 &&
      placement.rank == 1) {
    view.warn("rank 0, which was to write this record, is lost: it holds what rank 1 has measured");
    for (const auto& blob : kept) view.add(placement.rank, blob);
    return view.finish(end);
  }
  if (!end) complain(end.error());
  const int status = exit_code_of(end);
  return status == kTargetMissed ? kFailed : status;
}

}  // namespace

int train_rank(const TrainOptions& options, const Resolved& resolved) {
  training::Placement placement;
  placement.rank = static_cast<int>(*options.rank);
  placement.rendezvous = options.rendezvous;
  const char* token = std::getenv("DLOBD_JOB_TOKEN");
  if (token == nullptr || *token == '\0') {
    complain(base::Error(
        base::ErrorKind::invalid_argument,
        "set DLOBD_JOB_TOKEN to one secret on all ranks: it keeps strangers out of the job"));
    return kRefused;
  }
  placement.token = token;
  if (placement.token.size() > transport::tcp::kMaxTokenBytes) {
    complain(base::Error(base::ErrorKind::invalid_argument,
                         fmt::format("DLOBD_JOB_TOKEN is too long: {} of at most {} bytes",
                                     placement.token.size(), transport::tcp::kMaxTokenBytes)));
    return kRefused;
  }
  unsetenv("DLOBD_JOB_TOKEN");
  if (!options.launched && placement.rank == 0) {
    const auto fd = cluster::listen_on(placement.rendezvous);
    if (!fd) {
      complain(fd.error());
      return kRefused;
    }
    placement.listen_fd = *fd;
  }
  const char* kernel = std::getenv("OPENBLAS_CORETYPE");
  auto replicas =
      training::Replicas::load(resolved.config, resolved.model, kernel != nullptr ? kernel : "");
  if (!replicas) {
    complain(replicas.error());
    return options.launched ? kFailed : kRefused;
  }
  return options.launched ? run_launched(resolved, placement, *replicas)
                          : run_alone(options, resolved, placement, *replicas);
}

}  // namespace dlobd::app
