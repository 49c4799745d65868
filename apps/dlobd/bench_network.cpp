#include "bench_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/nearest.h"
#include "bench_options.h"
#include "connections.h"
#include "libfabric_size.h"
#include "transport/fabric/endpoint.h"
#include "transport/fabric/providers.h"
#include "transport/tcp/endpoint.h"

namespace dlobd::app {

using base::ErrorKind;
using base::fail;
using base::Result;
namespace fabric = transport::fabric;

namespace {

// The same token in all ranks of an arm: they are forked from one process, and listen on loopback.
constexpr const char* kToken = "dlobd bench";
// An endpoint that has nothing to wait on but time (shm) polls so long before it naps: no other
// work wants this core, and the peers that it is compared with poll all the time.
constexpr auto kPatience = std::chrono::milliseconds(2);

const std::vector<std::string>& stand_ins() {
  static const std::vector<std::string> kNames{"shm", "tcp;ofi_rxm"};
  return kNames;
}

bool is_stand_in(const std::string& provider) {
  return std::find(stand_ins().begin(), stand_ins().end(), provider) != stand_ins().end();
}

// Those that an endpoint takes: each refused one says why when it is asked for.
std::vector<BenchNetwork> from_list(const std::vector<fabric::Provider>& there) {
  std::vector<BenchNetwork> all(1);
  for (const auto& name : stand_ins()) {
    if (!fabric::choose(name, there)) continue;
    BenchNetwork one;
    one.provider = name;
    one.software = true;
    all.push_back(std::move(one));
  }
  for (const auto& each : there) {
    if (is_stand_in(each.name) || !fabric::choose(each.name, there)) continue;
    BenchNetwork one;
    one.provider = each.name;
    one.device = each.domain;
    one.software = each.software;
    all.push_back(std::move(one));
  }
  return all;
}

Blob listed(const std::vector<fabric::Provider>& there) {
  auto lines = nlohmann::json::array();
  for (const auto& one : there) lines.push_back({one.name, one.domain, one.fabric, one.software});
  const std::string text = lines.dump();
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return Blob(first, first + text.size());
}

}  // namespace

std::string BenchNetwork::name() const {
  if (is_tcp()) return "tcp";
  std::string text = "rdma_" + provider;
  if (!device.empty()) text += "_" + device;
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return text;
}

std::string BenchNetwork::title() const {
  if (is_tcp()) return "tcp";
  std::string text = fabric::label(provider);
  if (!device.empty()) text += " on " + device;
  return software ? text + ", software stand-in" : text;
}

void add_network_options(CLI::App& verb, BenchNetworkOptions& options) {
  verb.add_option("--network", options.network, "tcp or rdma")->capture_default_str();
  verb.add_option("--provider", options.provider,
                  "rdma: libfabric's provider; shm and 'tcp;ofi_rxm', software stand-ins, by name "
                  "only (default: this host's real RDMA)");
  verb.add_option("--device", options.device, "rdma: the device, as libfabric names it (mlx5_0)");
  verb.add_option("--connections-per-peer", options.connections_per_peer,
                  "TCP connections between each two ranks; 1 to 16")
      ->capture_default_str();
}

Result<std::vector<BenchNetwork>> networks_here(const Interrupt& interrupt) {
  DLOBD_TRY(blobs, run_forked(
                       1, [](Seat&) -> Result<Blob> { return listed(fabric::list()); }, interrupt,
                       kArmLimit));
  const std::string_view text(reinterpret_cast<const char*>(blobs[0].data()), blobs[0].size());
  std::vector<fabric::Provider> there;
  for (const auto& line : nlohmann::json::parse(text)) {
    fabric::Provider one;
    one.name = line[0];
    one.domain = line[1];
    one.fabric = line[2];
    one.software = line[3];
    there.push_back(std::move(one));
  }
  return from_list(there);
}

Result<BenchNetwork> choose_network(const BenchNetworkOptions& options,
                                    const std::vector<BenchNetwork>& here) {
  const std::vector<std::string> valid{"tcp", "rdma"};
  if (std::find(valid.begin(), valid.end(), options.network) == valid.end()) {
    return fail(ErrorKind::invalid_argument, fmt::format("no such network: {}; {}", options.network,
                                                         base::suggestion(options.network, valid)));
  }
  DLOBD_TRY_VOID(good, check_connections_per_peer(options.connections_per_peer));
  BenchNetwork network;
  network.connections_per_peer = static_cast<int>(options.connections_per_peer);
  if (options.network == "tcp") {
    if (options.provider || !options.device.empty()) {
      return fail(ErrorKind::invalid_argument,
                  "--network tcp takes no --provider and no --device: add --network rdma");
    }
    return network;
  }
  if (options.connections_per_peer != 1) {
    return fail(ErrorKind::invalid_argument,
                "--network rdma takes no --connections-per-peer: leave it out");
  }
  std::vector<fabric::Provider> there;
  for (const auto& one : here) {
    if (one.is_tcp()) continue;
    fabric::Provider provider;
    provider.name = one.provider;
    provider.domain = one.device;
    provider.software = one.software;
    there.push_back(std::move(provider));
  }
  DLOBD_TRY(name, fabric::choose(options.provider.value_or(""), there));
  network.provider = name;
  network.device = options.device;
  network.software = true;
  for (const auto& one : here) {
    const bool meant = options.device.empty() || one.device == options.device;
    if (one.provider == name && meant) network.software = network.software && one.software;
  }
  return network;
}

Result<BenchEndpoint> open_endpoint(base::Loop& loop, const Seat& seat,
                                    const BenchNetwork& network) {
  BenchEndpoint opened;
  if (network.is_tcp()) {
    transport::tcp::Options options;
    options.token = kToken;
    options.connections_per_peer = network.connections_per_peer;
    DLOBD_TRY(endpoint, transport::tcp::TcpEndpoint::make(loop, seat.rank(), seat.world_size(),
                                                          std::move(options)));
    opened.copies = [tcp = endpoint.get()] {
      Copies copies;
      copies.copied_bytes = tcp->system_calls().copied_bytes;
      return copies;
    };
    opened.endpoint = std::move(endpoint);
    return opened;
  }
  size_libfabric(network.provider, seat.world_size());
  fabric::Options options;
  options.token = kToken;
  options.provider = network.provider;
  options.device = network.device;
  options.spin = kPatience;
  if (network.provider.starts_with("tcp")) options.address = "127.0.0.1";
  DLOBD_TRY(endpoint,
            fabric::FabricEndpoint::make(loop, seat.rank(), seat.world_size(), std::move(options)));
  opened.copies = [rdma = endpoint.get()] {
    const auto found = rdma->statistics();
    Copies copies;
    copies.copied_bytes = found.copied_bytes;
    copies.injected_bytes = found.injected_bytes;
    copies.temporary_registrations = found.temporary_registrations;
    return copies;
  };
  opened.endpoint = std::move(endpoint);
  return opened;
}

}  // namespace dlobd::app
