#include "fabric_group.h"
#include "transport/fabric/providers.h"
#include "transport/simulated/network.h"
#include "transport/tcp/endpoint.h"

namespace dlobd::transport {

namespace {

using namespace std::chrono_literals;

std::unique_ptr<Group> simulated_group(std::unique_ptr<base::Loop> loop, int world_size) {
  simulated::LinkModel model;
  model.latency = 5us;
  model.bandwidth_bytes_per_second = 10'000'000'000;
  model.send_per_message = 1us;
  model.receive_per_message = 1us;
  model.jitter = 3us;
  auto network = std::make_shared<simulated::Network>(*loop, model, world_size, 1);
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (int rank = 0; rank < world_size; ++rank) endpoints.push_back(network->endpoint(rank));
  std::vector<std::unique_ptr<base::Loop>> loops;
  loops.push_back(std::move(loop));
  return std::make_unique<Group>(std::move(loops), network, std::move(endpoints));
}

enum class Loops { one, one_each };

std::unique_ptr<Group> tcp_group(int world_size, Loops kind, const Limits& limits,
                                 tcp::Options options = {}) {
  options.token = "the job";
  options.peer_timeout = limits.peer_timeout;
  options.connect_timeout = limits.connect_timeout;
  std::vector<std::unique_ptr<base::Loop>> loops;
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (int rank = 0; rank < world_size; ++rank) {
    if (loops.empty() || kind == Loops::one_each) {
      loops.push_back(std::make_unique<base::RealLoop>());
    }
    auto endpoint = tcp::TcpEndpoint::make(*loops.back(), rank, world_size, options);
    if (!endpoint) {
      ADD_FAILURE() << endpoint.error().message;
      return nullptr;
    }
    endpoints.push_back(std::move(*endpoint));
  }
  return std::make_unique<Group>(std::move(loops), nullptr, std::move(endpoints));
}

std::unique_ptr<Group> striped_group(int world_size, const Limits& limits) {
  tcp::Options options;
  options.connections_per_peer = 3;
  return tcp_group(world_size, Loops::one_each, limits, options);
}

std::unique_ptr<Group> tcp_group_in_pieces(int world_size, const Limits& limits) {
  tcp::Options options;
  options.piece_bytes = 4096;
  return tcp_group(world_size, Loops::one, limits, options);
}

fabric::Options within(const Limits& limits, const std::string& provider) {
  fabric::Options options = on(provider);
  options.peer_timeout = limits.peer_timeout;
  options.connect_timeout = limits.connect_timeout;
  return options;
}

// Few credits, and fragments of odd sizes: every message waits for some.
std::unique_ptr<Group> tight_group(int world_size, fabric::Options options) {
  options.credits_per_peer = 3;
  options.fragment_bytes = 50'001;
  return fabric_group(world_size, FabricLoops::one, options);
}

// Under a name that a test can have.
void add_provider(std::vector<Factory>& all, const std::string& name, const std::string& provider,
                  int slowness = 1) {
  all.push_back({name,
                 [provider](int n, const Limits& limits) {
                   return fabric_group(n, FabricLoops::one_each, within(limits, provider));
                 },
                 true, slowness});
  all.push_back(
      {name + "_of_few_credits",
       [provider](int n, const Limits& limits) { return tight_group(n, within(limits, provider)); },
       true, slowness});
}

}  // namespace

std::vector<Factory> factories() {
  std::vector<Factory> all = {
      {"simulated",
       [](int n, const Limits&) {
         return simulated_group(std::make_unique<base::VirtualLoop>(), n);
       },
       false},
      {"simulated_in_real_time",
       [](int n, const Limits&) { return simulated_group(std::make_unique<base::RealLoop>(), n); },
       false},
      {"tcp_on_one_loop",
       [](int n, const Limits& limits) { return tcp_group(n, Loops::one, limits); }},
      {"tcp_on_a_loop_each",
       [](int n, const Limits& limits) { return tcp_group(n, Loops::one_each, limits); }},
      {"tcp_striped", striped_group},
      {"tcp_in_pieces", tcp_group_in_pieces},
  };
  if (fabric::built_in()) {
    add_provider(all, "rdma_shm", "shm");
    add_provider(all, "rdma_tcp_ofi_rxm", "tcp;ofi_rxm");
    // Where there is an adapter, or what looks like one.
    if (fabric::choose("verbs")) add_provider(all, "rdma_verbs_ofi_rxm", "verbs", 10);
  }
  return all;
}

}  // namespace dlobd::transport
