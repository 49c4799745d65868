// All-reduces that follow one another at once, over a link on which only the way takes time. What a
// peer sends in one call and in the next may then land in the same instant, before the receiver has
// taken the first: as two frames that a socket gives in one read. Every sum must be right all the
// same, which is what the slots of the scratch memory are for.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "exchange/collective.h"
#include "exchange/group.h"
#include "seeds.h"
#include "transport/simulated/network.h"

namespace dlobd::exchange::testing {
namespace {

constexpr int kCalls = 24;
constexpr std::size_t kElements = 23;

// Whole numbers, so that sums are exact in any order.
float given(int rank, int call, std::size_t element) {
  return static_cast<float>((rank + 1) * (call + 3) + static_cast<int>(element));
}

float sum_over(int world_size, int call, std::size_t element) {
  float sum = 0;
  for (int rank = 0; rank < world_size; ++rank) sum += given(rank, call, element);
  return sum;
}

struct Caller {
  Caller(std::unique_ptr<transport::Endpoint> own, CollectiveOptions options)
      : endpoint(std::move(own)),
        buffer(kElements),
        collective(*endpoint, compute::cpu_kernels(), buffer, kElements, options) {}

  std::unique_ptr<transport::Endpoint> endpoint;
  std::vector<float> buffer;
  Collective collective;
  std::optional<int> wrong;  // the first call with a wrong sum
  std::optional<base::Result<void>> ended;
};

base::Task<base::Result<void>> call_again_and_again(Caller& self) {
  for (int call = 0; call < kCalls; ++call) {
    // Not always the same part of the buffer, nor of the slots.
    const compute::Range range{static_cast<std::size_t>(call % 3), kElements - call % 5};
    for (std::size_t i = range.begin; i < range.end; ++i) {
      self.buffer[i] = given(self.endpoint->rank(), call, i);
    }
    auto done = co_await self.collective.all_reduce(range);
    DLOBD_CO_CHECK(done);
    for (std::size_t i = range.begin; i < range.end; ++i) {
      const bool right = self.buffer[i] == sum_over(self.endpoint->world_size(), call, i);
      if (!right && !self.wrong) self.wrong = call;
    }
  }
  co_return base::Result<void>();
}

base::Task<void> live(Caller& self, const std::vector<std::vector<std::byte>>& descriptors) {
  auto connected = co_await self.endpoint->connect(descriptors);
  if (!connected) {
    self.ended = connected;
    co_return;
  }
  auto end = co_await call_again_and_again(self);
  self.ended = end;
}

class Bursts : public ::testing::TestWithParam<Algorithm> {};

TEST_P(Bursts, LeaveEverySumRight) {
  transport::simulated::LinkModel link;
  link.latency = std::chrono::microseconds(1);
  link.jitter = std::chrono::microseconds(50);
  CollectiveOptions options;
  options.algorithm = GetParam();
  options.segment_elements = 3;
  for (std::uint64_t seed = 0; seed < seeds(40); ++seed) {
    for (const int world_size : {2, 3, 4, 5, 8}) {
      base::VirtualLoop loop;
      transport::simulated::Network network(loop, link, world_size, seed);
      std::vector<std::unique_ptr<Caller>> callers;
      std::vector<std::vector<std::byte>> descriptors;
      for (auto& endpoint : endpoints_of(network, world_size)) {
        callers.push_back(std::make_unique<Caller>(std::move(endpoint), options));
        auto descriptor = callers.back()->endpoint->descriptor();
        ASSERT_TRUE(descriptor.has_value());
        descriptors.push_back(*descriptor);
      }
      for (auto& caller : callers) loop.spawn(live(*caller, descriptors));
      loop.run();
      SCOPED_TRACE(::testing::Message() << "seed " << seed << ", N = " << world_size);
      for (const auto& caller : callers) {
        const int rank = caller->endpoint->rank();
        ASSERT_TRUE(caller->ended.has_value()) << "rank " << rank << " hangs";
        ASSERT_TRUE(caller->ended->has_value())
            << "rank " << rank << ": " << caller->ended->error().message;
        ASSERT_FALSE(caller->wrong.has_value()) << "rank " << rank << ", call " << *caller->wrong;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Bursts,
                         ::testing::Values(Algorithm::recursive_doubling, Algorithm::ring,
                                           Algorithm::automatic),
                         [](const auto& each) -> std::string {
                           if (each.param == Algorithm::ring) return "ring";
                           return each.param == Algorithm::automatic ? "automatic" : "doubling";
                         });

}  // namespace
}  // namespace dlobd::exchange::testing
