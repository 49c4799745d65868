#include "group.h"
#include "transport/simulated/network.h"

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

}  // namespace

std::vector<Factory> factories() {
  return {
      {"simulated",
       [](int n) { return simulated_group(std::make_unique<base::VirtualLoop>(), n); }},
      {"simulated_in_real_time",
       [](int n) { return simulated_group(std::make_unique<base::RealLoop>(), n); }},
  };
}

}  // namespace dlobd::transport
