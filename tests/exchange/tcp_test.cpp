// The same designs over real sockets on one loop: the oracle's weights, the closed form's counts,
// and what the simulated network gives.
#include <gtest/gtest.h>

#include "exchange/designs.h"
#include "exchange/group.h"
#include "seeds.h"
#include "transport/tcp/endpoint.h"

namespace dlobd::exchange::testing {
namespace {

std::vector<std::unique_ptr<transport::Endpoint>> tcp_endpoints(
    base::Loop& loop, int world_size, const transport::tcp::Options& options) {
  std::vector<std::unique_ptr<transport::Endpoint>> endpoints;
  for (int rank = 0; rank < world_size; ++rank) {
    auto endpoint = transport::tcp::TcpEndpoint::make(loop, rank, world_size, options);
    EXPECT_TRUE(endpoint.has_value()) << endpoint.error().message;
    endpoints.push_back(std::move(*endpoint));
  }
  return endpoints;
}

transport::tcp::Options local() {
  transport::tcp::Options options;
  options.token = "exchange";
  return options;
}

class Tcp : public ::testing::TestWithParam<std::size_t> {};

TEST_P(Tcp, EqualsTheOracleTheClosedFormAndTheSimulation) {
  const NamedDesign named = all_designs().at(GetParam());
  const std::vector<int> sizes = kSanitized ? std::vector{3} : std::vector{1, 2, 3, 4, 5, 8};
  for (const int world_size : sizes) {
    for (const std::size_t elements : {std::size_t{3}, std::size_t{301}}) {
      SCOPED_TRACE(::testing::Message()
                   << named.name << ", N = " << world_size << ", P = " << elements);
      const GroupOptions options = group_options(named.design, world_size, elements, 21);
      base::RealLoop real;
      Group over_tcp(real, options, tcp_endpoints(real, options.layout().world_size(), local()));
      over_tcp.run();
      expect_oracle(over_tcp);
      expect_closed_form(over_tcp);

      base::VirtualLoop virtual_loop;
      Group simulated(virtual_loop, options,
                      simulated_endpoints(virtual_loop, options.layout().world_size(), 22));
      simulated.run();
      for (int rank = 0; rank < options.layout().world_size(); ++rank) {
        if (!order_is_fixed(options.design)) break;
        ASSERT_EQ(over_tcp.rank(rank).held().parameters, simulated.rank(rank).held().parameters);
        ASSERT_EQ(over_tcp.rank(rank).endpoint().counters().sent,
                  simulated.rank(rank).endpoint().counters().sent);
        ASSERT_EQ(over_tcp.rank(rank).endpoint().counters().received,
                  simulated.rank(rank).endpoint().counters().received);
      }
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Designs, Tcp, ::testing::Range<std::size_t>(0, all_designs().size()),
                         [](const auto& each) { return all_designs().at(each.param).name; });

// A model of LeNet's size in one view of most of it, with the settings that users run: several
// segments, and messages larger than the kernel's buffers.
void run_large(const stacks::Design& design, const transport::tcp::Options& tcp) {
  GroupOptions options = group_options(design, 3, 431'080, 5);
  base::RealLoop loop;
  Group group(loop, options, tcp_endpoints(loop, options.layout().world_size(), tcp));
  group.run();
  expect_oracle(group);
  expect_closed_form(group);
}

TEST(TcpLarge, AllReduceWithItsDefaults) {
  run_large(design_of("allreduce"), local());
}

TEST(TcpLarge, AllReduceOverSeveralConnections) {
  transport::tcp::Options options = local();
  options.connections_per_peer = 3;
  run_large(design_of("allreduce"), options);
}

TEST(TcpLarge, TensorFlowOnSparkInOnePack) {
  run_large(design_of("tensorflowonspark"), local());
}

TEST(TcpLarge, TensorFlowOnSparkInPacksAndTwoSectionsForEachChunk) {
  stacks::Design design = design_of("tensorflowonspark", "fixed");
  design.tf_ring.most_chunk_bytes = 64 * 1024;
  run_large(design, local());
}

TEST(TcpLarge, TensorFlowOnSparkIn16Bits) {
  run_large(design_of("tensorflowonspark", "", {}, false, "bfloat16"), local());
}

TEST(TcpLarge, CaffeOnSparkFixed) {
  run_large(design_of("caffeonspark", "fixed"), local());
}

TEST(TcpLarge, CaffeOnSparkIn256BytePieces) {
  const stacks::Design design = design_of("caffeonspark");
  transport::tcp::Options options = local();
  options.piece_bytes = stacks::piece_bytes(design);
  run_large(design, options);
}

}  // namespace
}  // namespace dlobd::exchange::testing
