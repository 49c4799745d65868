#include "bench_collective.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "base/loop.h"
#include "bench_raw.h"
#include "compute/arena.h"
#include "compute/kernels.h"
#include "exchange/collective.h"

namespace dlobd::app {

using base::Result;

namespace {

// How long the loop polls before it sleeps: nothing else wants this core.
constexpr auto kSpin = std::chrono::microseconds(50);

// What one rank's coroutine works on; outlives it.
struct Job {
  transport::Endpoint& endpoint;
  exchange::Collective& collective;
  std::span<float> buffer;
  const std::vector<std::uint64_t>& sizes;
  const std::vector<Blob>& descriptors;
  std::vector<double> seconds;
  std::optional<Result<void>> end;
};

base::Task<Result<void>> measure(Job& job, std::uint64_t bytes) {
  const std::size_t elements = bytes / sizeof(float);
  const compute::Range range{0, elements};
  const auto data = job.buffer.first(elements);
  fill_for_check(data, job.endpoint.rank());
  auto checked = co_await job.collective.all_reduce(range);
  DLOBD_CO_CHECK(checked);
  auto right = check_sum(data, job.endpoint.rank(), job.endpoint.world_size());
  DLOBD_CO_CHECK(right);
  std::fill(data.begin(), data.end(), 0.0F);
  for (std::size_t i = 0; i < warmups_of(bytes); ++i) {
    auto warm = co_await job.collective.all_reduce(range);
    DLOBD_CO_CHECK(warm);
  }
  for (std::size_t i = 0; i < iterations_of(bytes); ++i) {
    const base::Time start = base::steady_now();
    auto done = co_await job.collective.all_reduce(range);
    DLOBD_CO_CHECK(done);
    job.seconds.push_back(std::chrono::duration<double>(base::steady_now() - start).count());
  }
  co_return Result<void>();
}

base::Task<Result<void>> measure_all(Job& job) {
  auto connected = co_await job.endpoint.connect(job.descriptors);
  DLOBD_CO_CHECK(connected);
  for (const std::uint64_t bytes : job.sizes) {
    auto measured = co_await measure(job, bytes);
    DLOBD_CO_CHECK(measured);
  }
  auto closed = co_await job.endpoint.shutdown();
  co_return closed;
}

base::Task<void> run_job(Job& job) {
  auto end = co_await measure_all(job);
  job.end = std::move(end);
  job.endpoint.loop().stop();
}

}  // namespace

Result<Blob> collective(Seat& seat, const std::vector<std::uint64_t>& sizes,
                        const BenchNetwork& network) {
  const std::size_t largest = *std::max_element(sizes.begin(), sizes.end()) / sizeof(float);
  compute::ParameterSpec spec;
  spec.name = "buffer";
  spec.shape = {static_cast<std::int64_t>(largest)};
  const compute::ParameterArena arena({spec});

  base::RealLoop loop(kSpin);
  DLOBD_TRY(opened, open_endpoint(loop, seat, network));
  const auto& endpoint = opened.endpoint;
  exchange::Collective all_reduce(*endpoint, compute::cpu_kernels(), arena.parameters(), largest);
  DLOBD_TRY(own, endpoint->descriptor());
  DLOBD_TRY(descriptors, seat.all_gather(own));
  Job job{*endpoint, all_reduce, arena.parameters(), sizes, descriptors, {}, std::nullopt};
  loop.spawn(run_job(job));
  loop.run();
  if (!*job.end) return base::fail(job.end->error());
  return to_blob(job.seconds);
}

}  // namespace dlobd::app
