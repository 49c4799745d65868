// ping_pong(): two ranks over an endpoint.
#include <optional>
#include <utility>

#include "base/loop.h"
#include "base/waiters.h"
#include "bench_pingpong.h"
#include "compute/arena.h"
#include "transport/endpoint.h"

namespace dlobd::app {

using base::Result;

namespace {

constexpr transport::RegionId kTarget = 0;
constexpr transport::RegionId kSource = 1;  // registered, as what an exchange sends from is
constexpr transport::Kind kPayload = 0;
constexpr transport::Kind kAcknowledge = 1;
// How long the loop polls before it sleeps: nothing else wants this core.
constexpr auto kPolling = std::chrono::microseconds(50);

// One rank, on its loop.
class Player {
 public:
  Player(BenchEndpoint opened, std::span<std::byte> target, std::span<std::byte> source,
         const std::vector<std::uint64_t>& sizes, std::size_t most)
      : opened_(std::move(opened)), target_(target), source_(source), sizes_(sizes), most_(most) {
    endpoint().register_memory(kTarget, target_);
    endpoint().register_memory(kSource, source_);
  }

  transport::Endpoint& endpoint() { return *opened_.endpoint; }

  Result<PingPongs> play(const std::vector<Blob>& descriptors) {
    endpoint().loop().spawn(live(descriptors));
    endpoint().loop().run();
    if (!*end_) return base::fail(end_->error());
    return std::move(measured_);
  }

 private:
  [[nodiscard]] int peer() { return 1 - endpoint().rank(); }
  [[nodiscard]] bool leads() { return endpoint().rank() == 0; }

  base::Task<void> live(const std::vector<Blob>& descriptors) {
    auto end = co_await play_all(descriptors);
    end_ = std::move(end);
    endpoint().loop().stop();
  }

  base::Task<Result<void>> play_all(const std::vector<Blob>& descriptors) {
    auto connected = co_await endpoint().connect(descriptors);
    DLOBD_CO_CHECK(connected);
    for (const Way way : kWays) {
      for (const std::uint64_t bytes : sizes_) {
        if (!goes(way, bytes)) continue;
        auto played = co_await play_size(way, bytes);
        DLOBD_CO_CHECK(played);
      }
    }
    auto closed = co_await endpoint().shutdown();
    co_return closed;
  }

  base::Task<Result<void>> play_size(Way way, std::uint64_t bytes) {
    auto right = co_await check(way, bytes);
    DLOBD_CO_CHECK(right);
    const Copies copies = opened_.copies();
    const std::uint64_t sent = sent_bytes();
    const PingPongPlan plan = plan_of(bytes, most_);
    PingPong& one = measured_[way][bytes];
    for (std::size_t i = 0; i < warmups(plan.round_trips) + plan.round_trips; ++i) {
      const base::Time start = base::steady_now();
      auto there = co_await turn(way, bytes);
      DLOBD_CO_CHECK(there);
      if (leads() && i >= warmups(plan.round_trips))
        one.half_trips_us.push_back(us_since(start) / 2);
    }
    for (std::size_t i = 0; i < warmups(plan.windows) + plan.windows; ++i) {
      const base::Time start = base::steady_now();
      auto streamed = co_await stream(way, bytes, plan.window);
      DLOBD_CO_CHECK(streamed);
      if (leads() && i >= warmups(plan.windows)) one.windows_us.push_back(us_since(start));
    }
    const Copies now = opened_.copies();
    one.sent_bytes = sent_bytes() - sent;
    one.copies.copied_bytes = now.copied_bytes - copies.copied_bytes;
    one.copies.injected_bytes = now.injected_bytes - copies.injected_bytes;
    one.copies.temporary_registrations =
        now.temporary_registrations - copies.temporary_registrations;
    co_return Result<void>();
  }

  base::Task<Result<void>> check(Way way, std::uint64_t bytes) {
    fill_pattern(source_.first(bytes), endpoint().rank());
    if (!leads()) {
      auto right = co_await arrive(way, bytes);
      DLOBD_CO_CHECK(right);
    }
    auto sent = co_await put(way, bytes);
    DLOBD_CO_CHECK(sent);
    if (leads()) {
      auto right = co_await arrive(way, bytes);
      DLOBD_CO_CHECK(right);
    }
    co_return Result<void>();
  }

  base::Task<Result<void>> arrive(Way way, std::uint64_t bytes) {
    auto arrival = co_await endpoint().next(kPayload);
    DLOBD_CO_CHECK(arrival);
    co_return check_pattern(
        way == Way::write ? target_.first(bytes) : std::span<std::byte>(arrival->payload), peer());
  }

  // There and back.
  base::Task<Result<void>> turn(Way way, std::uint64_t bytes) {
    if (!leads()) {
      auto arrival = co_await endpoint().next(kPayload);
      DLOBD_CO_CHECK(arrival);
    }
    auto sent = co_await put(way, bytes);
    DLOBD_CO_CHECK(sent);
    if (leads()) {
      auto arrival = co_await endpoint().next(kPayload);
      DLOBD_CO_CHECK(arrival);
    }
    co_return Result<void>();
  }

  base::Task<Result<void>> stream(Way way, std::uint64_t bytes, std::size_t window) {
    if (leads()) {
      base::TaskGroup puts(endpoint().loop());
      for (std::size_t i = 0; i < window; ++i) puts.spawn(put(way, bytes));
      auto sent = co_await puts.join();
      DLOBD_CO_CHECK(sent);
      auto acknowledged = co_await endpoint().next(kAcknowledge);
      DLOBD_CO_CHECK(acknowledged);
      co_return Result<void>();
    }
    for (std::size_t i = 0; i < window; ++i) {
      auto arrival = co_await endpoint().next(kPayload);
      DLOBD_CO_CHECK(arrival);
    }
    const transport::Notification all{kAcknowledge, 0};
    transport::Message message(peer(), all, {});
    auto sent = co_await endpoint().send(std::move(message));
    co_return sent;
  }

  base::Task<Result<void>> put(Way way, std::uint64_t bytes) {
    const transport::Notification notification{kPayload, 0};
    const std::span<const std::byte> payload = source_.first(bytes);
    if (way == Way::message) {
      transport::Message message(peer(), notification, payload, transport::Traffic::data);
      return endpoint().send(std::move(message));
    }
    transport::Write write(peer(), kTarget, 0, payload, notification);
    return endpoint().write(std::move(write));
  }

  [[nodiscard]] std::uint64_t sent_bytes() {
    return endpoint().counters().sent_of(transport::Traffic::data).bytes;
  }
  static double us_since(base::Time start) {
    return std::chrono::duration<double, std::micro>(base::steady_now() - start).count();
  }

  BenchEndpoint opened_;
  std::span<std::byte> target_;
  std::span<std::byte> source_;
  const std::vector<std::uint64_t>& sizes_;
  std::size_t most_;
  PingPongs measured_;
  std::optional<Result<void>> end_;
};

}  // namespace

Result<Blob> ping_pong(Seat& seat, const BenchNetwork& network,
                       const std::vector<std::uint64_t>& sizes, std::size_t most) {
  const std::uint64_t largest = *std::max_element(sizes.begin(), sizes.end());
  compute::ParameterSpec spec;
  spec.name = "buffer";
  spec.shape = {static_cast<std::int64_t>((largest + sizeof(float) - 1) / sizeof(float))};
  const compute::ParameterArena arena({spec});

  base::RealLoop loop(kPolling);
  DLOBD_TRY(opened, open_endpoint(loop, seat, network));
  Player player(std::move(opened), std::as_writable_bytes(arena.parameters()),
                std::as_writable_bytes(arena.gradients()), sizes, most);
  DLOBD_TRY(own, player.endpoint().descriptor());
  DLOBD_TRY(descriptors, seat.all_gather(own));
  DLOBD_TRY(measured, player.play(descriptors));
  return to_blob(measured);
}

}  // namespace dlobd::app
