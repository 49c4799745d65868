#include "transport/simulated/network.h"

#include "base/check.h"
#include "transport/simulated/endpoint.h"
#include "transport/simulated/fabric.h"

namespace dlobd::transport::simulated {

Network::Network(base::Loop& loop, const LinkModel& model, int world_size, std::uint64_t seed,
                 Payload payload)
    : world_size_(world_size),
      fabric_(std::make_shared<Fabric>(loop, model, world_size, seed, payload)) {}

Network::~Network() = default;

std::unique_ptr<Endpoint> Network::endpoint(int rank) {
  CHECK(rank >= 0 && rank < world_size_, "rank {} of {}", rank, world_size_);
  return std::make_unique<SimulatedEndpoint>(fabric_, rank, world_size_);
}

void Network::strike(const Fault& fault) {
  fabric_->strike(fault);
}

void Network::strike_at(base::Time when, const Fault& fault) {
  fabric_->strike_at(when, fault);
}

void Network::at_message(int rank, std::uint64_t n, const Fault& fault) {
  fabric_->at_message(rank, n, fault);
}

Faults& Network::faults() {
  return fabric_->faults();
}

}  // namespace dlobd::transport::simulated
