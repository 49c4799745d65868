// Ranks that agree where to stop: a last step that all run, whoever asks, however far apart they
// are.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cluster/simulated_job.h"
#include "seeds.h"

namespace dlobd::cluster::testing {
namespace {

using base::Duration;
using base::Task;

Task<void> train(SimulatedJob* job, int rank, std::uint64_t steps, bool barrier) {
  SimulatedRank& me = (*job)[rank];
  const auto seat = static_cast<std::uint64_t>(rank);
  base::Random random = base::Random::of({job->random.state(), seat});
  const std::uint64_t pace = 1 + random.below(60'000'000);
  co_await job->loop.sleep_for(Duration(random.below(50'000'000)));
  auto link = job->connect(rank);
  auto joined =
      co_await Member::join(job->loop, std::move(link), job->identity, rank, job->options);
  if (!joined) {
    ADD_FAILURE() << joined.error().message;
    co_return;
  }
  me.member = std::move(*joined);
  for (std::uint64_t step = 0; step < steps; ++step) {
    const base::Time asked = job->loop.now();
    auto begin = co_await me.member->may_begin(step);
    if (!begin || !*begin) break;
    // No round trip before a stop.
    EXPECT_TRUE(job->struck || job->loop.now() == asked) << step;
    me.last_step = step;
    co_await job->loop.sleep_for(Duration(random.below(pace)));
    if (!barrier) continue;
    auto gathered = co_await me.member->all_gather(Blob());
    if (!gathered) ADD_FAILURE() << gathered.error().message;
  }
  auto left = co_await me.member->leave();
  if (!left) me.error = left.error();
  me.ended = job->loop.now();
}

TEST(Stop, AllRanksRunTheSameLastStep) {
  int stopped_early = 0;
  for (std::uint64_t seed = 0; seed < seeds(1000); ++seed) {
    base::Random random = base::Random::of({seed, 2});
    const int ranks = 1 + static_cast<int>(random.below(5));
    const std::uint64_t steps = 25;
    const bool barrier = random.below(2) == 0;
    SCOPED_TRACE(fmt::format("seed {}: {} ranks{}", seed, ranks, barrier ? ", in step" : ""));
    SimulatedJob job(ranks, seed);
    job.start_hub();
    for (int rank = 0; rank < ranks; ++rank) job.loop.spawn(train(&job, rank, steps, barrier));
    const base::Time when(60'000'000 + random.below(600'000'000));
    for (std::uint64_t asks = 1 + random.below(3); asks > 0; --asks) {
      const int who = static_cast<int>(random.below(static_cast<std::uint64_t>(ranks)));
      job.loop.call_at(when + Duration(random.below(20'000'000)), [&job, who] {
        if (!job.struck) job.struck = job.loop.now();
        if (job[who].member) job[who].member->request_stop();
      });
    }
    job.loop.run();
    ASSERT_TRUE(job.all_ended());
    for (int rank = 0; rank < ranks; ++rank) {
      ASSERT_FALSE(job[rank].error) << job[rank].error->message;
      ASSERT_EQ(job[rank].last_step, job[0].last_step) << rank;
    }
    if (*job[0].last_step + 1 < steps) ++stopped_early;
  }
  EXPECT_GT(stopped_early, static_cast<int>(seeds(1000) / 5));
}

}  // namespace
}  // namespace dlobd::cluster::testing
