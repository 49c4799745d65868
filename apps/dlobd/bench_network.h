// The network that a benchmark measures: TCP on loopback, or RDMA by a provider of libfabric, by
// which forked ranks of this host reach each other. A software stand-in is called one wherever its
// figures go. What an endpoint copied itself is read from its own counters.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "bench_forked.h"
#include "transport/endpoint.h"

namespace dlobd::app {

struct BenchNetwork {
  std::string provider;          // of libfabric, in full; empty: TCP
  std::string device;            // libfabric's domain; empty: the first that fits
  bool software = false;         // a stand-in for RDMA
  int connections_per_peer = 1;  // TCP

  [[nodiscard]] bool is_tcp() const { return provider.empty(); }
  // "tcp", "rdma_shm", "rdma_verbs_ofi_rxm_mlx5_0": of an arm.
  [[nodiscard]] std::string name() const;
  // "tcp", "rdma(shm), software stand-in": of a table.
  [[nodiscard]] std::string title() const;
};

// What a user asks for.
struct BenchNetworkOptions {
  std::string network = "tcp";
  std::optional<std::string> provider;
  std::string device;
  std::int64_t connections_per_peer = 1;
};
void add_network_options(CLI::App& verb, BenchNetworkOptions& options);

// The networks of this host: TCP, the stand-ins that its libfabric has, and every device of real or
// emulated RDMA. Asked in a forked process, for libfabric may start threads.
base::Result<std::vector<BenchNetwork>> networks_here(const Interrupt& interrupt);
// invalid_argument for words that make no sense, unavailable for what this host lacks.
base::Result<BenchNetwork> choose_network(const BenchNetworkOptions& options,
                                          const std::vector<BenchNetwork>& here);

// What this program's own code did to payload; what a kernel or a provider copies is not in it.
struct Copies {
  std::uint64_t copied_bytes = 0;    // sent and received
  std::uint64_t injected_bytes = 0;  // handed to the provider to copy: small writes
  std::uint64_t temporary_registrations = 0;
};

struct BenchEndpoint {
  std::unique_ptr<transport::Endpoint> endpoint;
  std::function<Copies()> copies;  // since the beginning; the endpoint must be alive
};
base::Result<BenchEndpoint> open_endpoint(base::Loop& loop, const Seat& seat,
                                          const BenchNetwork& network);

}  // namespace dlobd::app
