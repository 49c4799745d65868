// The same designs over RDMA, by every provider of this host that is asked for by name: the
// oracle's weights (where a design adds in order of arrival, the oracle replays the order that came
// about) and the closed form's counts.
#include <gtest/gtest.h>

#include "exchange/designs.h"
#include "exchange/group.h"
#include "seeds.h"
#include "transport/fabric/endpoint.h"
#include "transport/fabric/providers.h"

namespace dlobd::exchange::testing {
namespace {

namespace fabric = transport::fabric;

struct Size {
  int workers;
  std::size_t elements;
};

struct Provider {
  std::string name;  // as a test may be called
  std::string provider;
  std::vector<Size> sizes;
};

// Models that no number of workers divides, and one smaller than the group. What looks like an
// adapter may be slow emulation: few groups there.
std::vector<Provider> find_providers() {
  std::vector<Provider> all;
  if (!fabric::built_in()) return all;
  all.push_back({"shm", "shm", {{3, 301}, {1, 301}, {2, 301}, {5, 301}, {8, 3}}});
  all.push_back({"tcp_ofi_rxm", "tcp;ofi_rxm", {{2, 301}, {3, 2}}});
  if (fabric::choose("verbs")) {
    all.push_back({"verbs_ofi_rxm", "verbs", {{2, 301}, {3, 301}, {3, 2}}});
  }
  if (kSanitized) {
    for (Provider& each : all) each.sizes.resize(1);
  }
  return all;
}

const std::vector<Provider>& providers() {
  static const std::vector<Provider> all = find_providers();
  return all;
}

std::vector<std::unique_ptr<transport::Endpoint>> endpoints_on(base::Loop& loop, int world_size,
                                                               const std::string& provider) {
  fabric::Options options;
  options.provider = provider;
  if (provider.starts_with("tcp")) options.address = "127.0.0.1";
  options.token = "exchange";
  // Not what is tested here, and emulated adapters are slow to connect.
  options.peer_timeout = std::chrono::minutes(2);
  options.connect_timeout = std::chrono::minutes(2);
  std::vector<std::unique_ptr<transport::Endpoint>> endpoints;
  for (int rank = 0; rank < world_size; ++rank) {
    auto endpoint = fabric::FabricEndpoint::make(loop, rank, world_size, options);
    if (!endpoint) {
      ADD_FAILURE() << endpoint.error().message;
      return {};
    }
    endpoints.push_back(std::move(*endpoint));
  }
  return endpoints;
}

void run(const Provider& on, const stacks::Design& design, const Size& size) {
  const GroupOptions options = group_options(design, size.workers, size.elements, 23);
  base::RealLoop loop;
  auto endpoints = endpoints_on(loop, options.layout().world_size(), on.provider);
  if (endpoints.empty()) return;
  Group group(loop, options, std::move(endpoints));
  group.run();
  expect_oracle(group);
  expect_closed_form(group);
}

using Case = std::tuple<std::size_t, std::size_t>;  // provider, design

class Fabric : public ::testing::TestWithParam<Case> {};

TEST_P(Fabric, EqualsTheOracleAndTheClosedForm) {
  const auto& [number, design] = GetParam();
  const Provider on = providers().at(number);
  const NamedDesign named = all_designs().at(design);
  for (const Size& size : on.sizes) {
    SCOPED_TRACE(::testing::Message()
                 << named.name << ", N = " << size.workers << ", P = " << size.elements);
    run(on, named.design, size);
    if (HasFailure()) return;
  }
}

std::string name_of(const ::testing::TestParamInfo<Case>& each) {
  const auto& [number, design] = each.param;
  return providers().at(number).name + "_" + all_designs().at(design).name;
}

INSTANTIATE_TEST_SUITE_P(Designs, Fabric,
                         ::testing::Combine(::testing::Range<std::size_t>(0, providers().size()),
                                            ::testing::Range<std::size_t>(0, all_designs().size())),
                         name_of);

}  // namespace
}  // namespace dlobd::exchange::testing
