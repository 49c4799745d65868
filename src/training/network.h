// The endpoint that a configuration asks for, on this rank, and what a record says of it. Never
// falls back: RDMA that is not to be had is an error, and a software stand-in is named wherever its
// figures go.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/loop.h"
#include "base/result.h"
#include "metrics/environment.h"
#include "metrics/rows.h"
#include "training/config.h"
#include "transport/endpoint.h"

namespace dlobd::training {

// What one host decides for itself.
struct NetworkSeat {
  int rank = 0;
  std::string rendezvous;        // whose route tells the interface, where none was named
  std::string token;             // secret of the job
  int connections_per_peer = 1;  // tcp
  std::string device;            // rdma: libfabric's domain; empty: the first that fits
  int port = 1;                  // rdma, with gid_index: of the device
  std::optional<int> gid_index;  // rdma: of the port's table
};

struct OpenNetwork {
  std::unique_ptr<transport::Endpoint> endpoint;
  // Adds to a rank's summary what only this kind of network counts. The endpoint must be alive.
  std::function<void(metrics::RankSummary&)> summarize;
};

// For the networks tcp and rdma; fills the environment's network fields. invalid_argument,
// not_found or unavailable: an interface, a device or a provider that is not there.
base::Result<OpenNetwork> open_network(base::Loop& loop, const Config& config,
                                       const NetworkSeat& seat, metrics::Environment& environment);

}  // namespace dlobd::training
