// A group of endpoints to test, whatever carries its bytes, and the list of the implementations
// that the contract suite runs over. A new one needs a function that makes a Group, and one line in
// factories().
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "base/loop.h"
#include "base/waiters.h"
#include "transport/endpoint.h"

namespace dlobd::transport {

// In coroutines: ends this one, as ASSERT does a function.
#define CO_ASSERT_TRUE(condition) \
  if (!(condition)) {             \
    ADD_FAILURE() << #condition;  \
    co_return;                    \
  }
#define CO_ASSERT_OK(result)                   \
  if (!(result)) {                             \
    ADD_FAILURE() << (result).error().message; \
    co_return;                                 \
  }

inline constexpr RegionId kRegion = 1;

class Group {
 public:
  // One loop for all ranks, or one for each rank (on threads of their own).
  // `own` is what the endpoints stand on; it goes after them.
  Group(std::vector<std::unique_ptr<base::Loop>> loops, std::shared_ptr<void> own,
        std::vector<std::unique_ptr<Endpoint>> endpoints)
      : loops_(std::move(loops)), own_(std::move(own)), endpoints_(std::move(endpoints)) {}

  // What one rank does. The function lives until run() returns, so its captures are safe.
  using Body = std::function<base::Task<void>(Endpoint&)>;

  // Runs the body on all ranks until all are through. False, and a failed test, if one hangs.
  bool run(const Body& body, base::Duration limit = std::chrono::seconds(60)) {
    left_ = world_size();
    for (auto& endpoint : endpoints_) endpoint->loop().spawn(run_one(body, *endpoint));
    for (auto& loop : loops_) {
      if (!loop->is_virtual()) loop->call_after(limit, [&loop] { loop->stop(); });
    }
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < loops_.size(); ++i) {
      threads.emplace_back([loop = loops_[i].get()] { loop->run(); });
    }
    loops_[0]->run();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(left_, 0) << "ranks that hang";
    return left_ == 0;
  }

  // Registers `bytes` zeroes as kRegion on each rank; what each tells its peers.
  std::vector<std::vector<std::byte>> describe(std::size_t bytes) {
    std::vector<std::vector<std::byte>> descriptors;
    for (auto& endpoint : endpoints_) {
      memory_.emplace_back(bytes);
      endpoint->register_memory(kRegion, memory_.back());
      auto blob = endpoint->descriptor();
      EXPECT_TRUE(blob) << blob.error().message;
      descriptors.push_back(blob.value_or(std::vector<std::byte>()));
    }
    return descriptors;
  }

  // The same, and connects all.
  void connect(std::size_t bytes) {
    const auto descriptors = describe(bytes);
    run([&descriptors](Endpoint& endpoint) -> base::Task<void> {
      auto connected = co_await endpoint.connect(descriptors);
      CO_ASSERT_OK(connected);
    });
  }

  [[nodiscard]] int world_size() const { return static_cast<int>(endpoints_.size()); }
  Endpoint& endpoint(int rank) { return *endpoints_[static_cast<std::size_t>(rank)]; }
  std::span<std::byte> memory(int rank) { return memory_[static_cast<std::size_t>(rank)]; }

 private:
  base::Task<void> run_one(const Body& body, Endpoint& endpoint) {
    co_await body(endpoint);
    if (--left_ == 0) {
      for (auto& loop : loops_) loop->stop();
    }
  }

  std::vector<std::unique_ptr<base::Loop>> loops_;
  std::shared_ptr<void> own_;
  std::deque<std::vector<std::byte>> memory_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::atomic<int> left_ = 0;
};

// How long endpoints wait for their peers.
struct Limits {
  base::Duration peer_timeout = std::chrono::seconds(10);
  base::Duration connect_timeout = std::chrono::seconds(30);
};

struct Factory {
  std::string name;
  std::function<std::unique_ptr<Group>(int world_size, const Limits& limits)> make;
  bool heeds_limits = true;
  int slowness = 1;  // how much longer things may take: an adapter may be emulated
};

inline void PrintTo(const Factory& factory, std::ostream* out) {
  *out << factory.name;
}

std::vector<Factory> factories();

}  // namespace dlobd::transport
