#include "training/network.h"

#include <utility>

#include "base/check.h"
#include "metrics/devices.h"
#include "metrics/port_bytes.h"
#include "transport/fabric/endpoint.h"
#include "transport/tcp/endpoint.h"
#include "transport/tcp/interface.h"

namespace dlobd::training {

namespace {

using base::Result;

// The address by which the others reach this rank.
Result<std::string> data_address(const Config& config, const NetworkSeat& seat) {
  if (!config.interface.empty()) return transport::tcp::interface_address(config.interface);
  return transport::tcp::source_address(seat.rendezvous);
}

void describe_interface(const std::string& address, metrics::Environment& environment) {
  environment.interface = transport::tcp::interface_of_address(address).value_or(address);
  environment.link_speed = metrics::link_speed(*environment.interface);
  if (!environment.link_speed) {
    environment.unknown["link_speed"] =
        "the interface does not state one: " + *environment.interface;
  }
}

// Says what a port has carried from now on, if it counts.
std::function<void(metrics::RankSummary&)> port_bytes(
    std::function<std::optional<metrics::PortBytes>()> read) {
  return [before = read(), read](metrics::RankSummary& summary) {
    const auto now = read();
    if (before && now) summary.port = metrics::carried(*before, *now);
  };
}

Result<OpenNetwork> open_tcp(base::Loop& loop, const Config& config, const NetworkSeat& seat,
                             metrics::Environment& environment) {
  DLOBD_TRY(address, data_address(config, seat));
  transport::tcp::Options options;
  options.address = address;
  options.piece_bytes = stacks::piece_bytes(config.design);
  options.peer_timeout = config.peer_timeout;
  options.token = seat.token;
  options.connections_per_peer = seat.connections_per_peer;
  DLOBD_TRY(endpoint, transport::tcp::TcpEndpoint::make(loop, seat.rank,
                                                        config.layout().world_size(), options));
  environment.unknown["provider_used"] = "network tcp goes by the kernel's sockets";
  environment.unknown["software_rdma"] = "network tcp is no RDMA";
  environment.unknown["libfabric"] = "not used by network tcp";
  describe_interface(address, environment);
  OpenNetwork network;
  network.endpoint = std::move(endpoint);
  network.summarize = port_bytes(
      [interface = *environment.interface] { return metrics::interface_bytes(interface); });
  return network;
}

Result<OpenNetwork> open_rdma(base::Loop& loop, const Config& config, const NetworkSeat& seat,
                              metrics::Environment& environment) {
  transport::fabric::Options options;
  options.provider = config.provider;
  options.device = seat.device;
  options.port = seat.port;
  options.gid_index = seat.gid_index;
  options.token = seat.token;
  options.peer_timeout = config.peer_timeout;
  if (!config.interface.empty()) {
    DLOBD_TRY(address, transport::tcp::interface_address(config.interface));
    options.address = address;
  }
  DLOBD_TRY(endpoint, transport::fabric::FabricEndpoint::make(
                          loop, seat.rank, config.layout().world_size(), options));
  const auto& opened = endpoint->opened();
  environment.provider_used = opened.provider;
  environment.software_rdma = opened.software;
  environment.libfabric = opened.library;
  environment.interface = opened.domain;
  if (opened.bits_per_second) {
    environment.link_speed = static_cast<std::int64_t>(*opened.bits_per_second);
  } else {
    environment.unknown["link_speed"] = "the provider does not state one: " + opened.provider;
  }
  OpenNetwork network;
  // A provider over sockets has an interface for its domain.
  auto ports = port_bytes([domain = opened.domain, port = seat.port] {
    const auto device = metrics::device_bytes(domain, port);
    return device ? device : metrics::interface_bytes(domain);
  });
  network.summarize = [fabric = endpoint.get(),
                       ports = std::move(ports)](metrics::RankSummary& summary) {
    summary.credits_sent = fabric->statistics().credits_sent;
    ports(summary);
  };
  network.endpoint = std::move(endpoint);
  return network;
}

}  // namespace

Result<OpenNetwork> open_network(base::Loop& loop, const Config& config, const NetworkSeat& seat,
                                 metrics::Environment& environment) {
  CHECK(config.network != NetworkKind::simulated, "a simulated network has no rank of its own");
  if (config.network == NetworkKind::rdma) return open_rdma(loop, config, seat, environment);
  return open_tcp(loop, config, seat, environment);
}

}  // namespace dlobd::training
