#include "train_placement.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <charconv>

namespace dlobd::app {

using base::ErrorKind;
using base::fail;

namespace {

// Hydra, MPICH's process manager, makes a pair of sockets for each rank; the kernel remembers which
// process did, one for all ranks on a host.
std::optional<int> pmi_server(const Environment& environment) {
  const std::string& text = value_of(environment, "PMI_FD");
  int fd = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), fd);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  ucred server{};
  socklen_t size = sizeof server;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &server, &size) != 0 || server.pid <= 0) {
    return std::nullopt;
  }
  return server.pid;
}

}  // namespace

base::Result<void> place_by_environment(TrainOptions& o, const Environment& environment) {
  if (o.launcher == "none" || o.launched) return {};
  if (o.launcher != "auto") {
    return fail(ErrorKind::invalid_argument,
                fmt::format("--launcher is auto or none: {}", o.launcher));
  }
  const int given = o.rank.has_value() + o.world_size.has_value() + !o.rendezvous.empty();
  if (given == 3) return {};
  DLOBD_TRY(found, launch_from(environment, pmi_server(environment)));
  if (!found || (found->world_size == 1 && given == 0)) return {};
  const Launch& launch = *found;
  if (o.network == "simulated") {
    return fail(ErrorKind::invalid_argument,
                fmt::format("--network simulated runs all ranks in one process: start one, not {} "
                            "by {}",
                            launch.world_size, launch.launcher));
  }
  if (!o.rank) o.rank = launch.rank;
  if (!o.world_size) o.world_size = launch.world_size;
  if (o.rendezvous.empty() && launch.rendezvous.empty()) {
    return fail(ErrorKind::invalid_argument,
                fmt::format("{} has started {} ranks and its environment does not say where rank 0 "
                            "runs: give --rendezvous HOST:PORT, of rank 0's host, to all ranks",
                            launch.launcher, launch.world_size));
  }
  if (o.rendezvous.empty()) {
    o.rendezvous = launch.rendezvous;
    o.rendezvous_by = launch.launcher;
  }
  o.ranks_here = launch.local_size.value_or(1);
  o.token = token_of_job(launch.job, o.rendezvous);
  return {};
}

}  // namespace dlobd::app
