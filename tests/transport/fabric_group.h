// Groups of endpoints over libfabric, for the contract suite and for their own tests.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "group.h"
#include "transport/fabric/endpoint.h"

namespace dlobd::transport {

enum class FabricLoops { one, one_each };

// Null, and a failed test, if the provider cannot be opened.
inline std::unique_ptr<Group> fabric_group(int world_size, FabricLoops kind,
                                           fabric::Options options) {
  options.token = "the job";
  std::vector<std::unique_ptr<base::Loop>> loops;
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (int rank = 0; rank < world_size; ++rank) {
    if (loops.empty() || kind == FabricLoops::one_each) {
      loops.push_back(std::make_unique<base::RealLoop>());
    }
    auto endpoint = fabric::FabricEndpoint::make(*loops.back(), rank, world_size, options);
    if (!endpoint) {
      ADD_FAILURE() << endpoint.error().message;
      return nullptr;
    }
    endpoints.push_back(std::move(*endpoint));
  }
  return std::make_unique<Group>(std::move(loops), nullptr, std::move(endpoints));
}

inline fabric::Options on(std::string provider) {
  fabric::Options options;
  if (provider.starts_with("tcp")) options.address = "127.0.0.1";
  options.provider = std::move(provider);
  return options;
}

inline fabric::FabricEndpoint& fabric_of(Endpoint& endpoint) {
  return dynamic_cast<fabric::FabricEndpoint&>(endpoint);
}

}  // namespace dlobd::transport
