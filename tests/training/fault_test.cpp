// Faults in whole jobs, in virtual time: 500 seeds a design. Whatever is struck, whenever: every
// survivor ends with `peer lost` and the same rank, within the time-out, and nobody waits for ever.
#include <gmock/gmock.h>

#include "base/random.h"
#include "seeds.h"
#include "training/job_fixture.h"

namespace dlobd::training {
namespace {

using transport::simulated::Fault;

struct Variant {
  const char* stack;
  const char* behaviour;
  const char* updates = nullptr;  // of the parameter servers
  bool drops = false;             // BigDL's stragglers
};

class Faults : public JobFixture, public ::testing::WithParamInterface<Variant> {};

TEST_P(Faults, EverySurvivorNamesTheSameRankInTime) {
  const std::optional<std::string> behaviour =
      GetParam().behaviour == nullptr ? std::optional<std::string>() : GetParam().behaviour;
  std::uint64_t jobs_lost = 0;  // some faults come after the job's end
  for (std::uint64_t seed = 0; jobs_lost < seeds(500); ++seed) {
    ASSERT_LT(seed, 4 * seeds(500)) << "most faults strike while the job runs";
    base::Random random = base::Random::of({seed, 4711});
    const int ranks = 2 + static_cast<int>(random.below(5));
    Config configuration = config(GetParam().stack, behaviour, ranks, GetParam().updates);
    const int world_size = configuration.layout().world_size();
    const int victim = static_cast<int>(random.below(static_cast<std::uint64_t>(world_size)));
    configuration.seed = seed;
    configuration.epochs.reset();
    configuration.steps = 12;
    configuration.evaluate_every = 4;
    if (GetParam().drops) drop_stragglers(configuration);
    auto job = make_job(configuration);
    const std::uint64_t kind = random.below(3);
    const Fault fault = kind == 0   ? Fault::kill(victim)
                        : kind == 1 ? Fault::stop(victim)
                                    : Fault::cut_off(victim);
    base::Time struck{-1};
    job->network().faults().on_change([&](const Fault&) { struck = job->loop().now(); });
    if (random.below(2) == 0) {
      // In the middle of a message, whichever phase it belongs to.
      job->network().at_message(victim, 1 + random.below(30), fault);
    } else {
      // At any time, joining included.
      job->network().strike_at(base::Time(static_cast<std::int64_t>(random.below(8'000'000))),
                               fault);
    }
    const auto ends = job->run();
    if (struck < base::Time::zero()) continue;  // it was over before

    int finished = 0;
    int failed = 0;
    for (int rank = 0; rank < world_size; ++rank) {
      if (rank == victim) continue;
      const auto& end = ends[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(end.has_value()) << "rank " << rank << " waits for ever, seed " << seed;
      if (end->has_value()) {  // all had left before
        ++finished;
        continue;
      }
      ++failed;
      const auto& error = end->error();
      const bool joined = error.message.find("did not join") == std::string::npos;
      EXPECT_EQ(error.kind,
                joined ? base::ErrorKind::peer_lost : base::ErrorKind::deadline_exceeded)
          << error.message << ", seed " << seed;
      ASSERT_TRUE(error.rank.has_value()) << error.message << ", seed " << seed;
      EXPECT_EQ(*error.rank, victim) << error.message << ", seed " << seed;
      // The time-out, a quarter for the heartbeat that was due, and a little for messages; a rank
      // that was struck before it had joined is waited for as long as joining may take.
      if (joined) {
        EXPECT_LE(job->end_times()[static_cast<std::size_t>(rank)] - struck,
                  configuration.peer_timeout * 3 / 2)
            << error.message << ", seed " << seed;
      }
    }
    EXPECT_TRUE(finished == 0 || failed == 0)
        << finished << " finished, " << failed << " failed, seed " << seed;
    if (failed > 0) ++jobs_lost;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Designs, Faults,
    ::testing::Values(Variant{"caffeonspark", "faithful"}, Variant{"caffeonspark", "fixed"},
                      Variant{"bigdl", "faithful"}, Variant{"bigdl", "fixed"},
                      Variant{"bigdl", "faithful", nullptr, true}, Variant{"bigdl", "improved"},
                      Variant{"caffeonspark", "improved"}, Variant{"tensorflowonspark", "faithful"},
                      Variant{"tensorflowonspark", "fixed"},
                      Variant{"tensorflowonspark", "improved"}, Variant{"allreduce", nullptr},
                      Variant{"tensorflowonspark_ps", "faithful"},
                      Variant{"tensorflowonspark_ps", "fixed", "synchronous"}),
    [](const auto& variant) {
      return std::string(variant.param.stack) +
             (variant.param.behaviour != nullptr ? std::string("_") + variant.param.behaviour
                                                 : "") +
             (variant.param.drops ? "_drops" : "");
    });

}  // namespace
}  // namespace dlobd::training
