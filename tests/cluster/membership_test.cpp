#include "cluster/membership.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/messages.h"
#include "cluster/simulated_job.h"

namespace dlobd::cluster::testing {
namespace {

using base::ErrorKind;
using base::Task;
using ::testing::HasSubstr;

Blob blob_of(const std::string& text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

std::string text_of(const Blob& blob) {
  return {reinterpret_cast<const char*>(blob.data()), blob.size()};
}

Task<void> join_as(SimulatedJob* job, int rank, JobIdentity identity,
                   std::optional<base::Error>* error, std::unique_ptr<Member>* member) {
  auto joined = co_await Member::join(job->loop, job->connect(rank), identity, rank, job->options);
  if (!joined) {
    *error = joined.error();
  } else {
    *member = std::move(*joined);
  }
}

Task<void> whole_life(SimulatedJob* job, int rank) {
  SimulatedRank& me = (*job)[rank];
  co_await job->loop.sleep_for(base::Duration(job->random.below(50'000'000)));
  auto link = job->connect(rank);
  const base::Time began = job->loop.now();
  auto joined =
      co_await Member::join(job->loop, std::move(link), job->identity, rank, job->options);
  if (!joined) {
    me.error = joined.error();
    co_return;
  }
  me.member = std::move(*joined);
  for (int round = 0; round < 5; ++round) {
    auto mine = blob_of(fmt::format("{} of {}", round, rank));
    const std::string what = fmt::format("round {}", round);
    auto blobs = co_await me.member->all_gather(std::move(mine), what);
    if (!blobs) {
      me.error = blobs.error();
      co_return;
    }
    for (int other = 0; other < job->ranks(); ++other) {
      EXPECT_EQ(text_of((*blobs)[static_cast<std::size_t>(other)]),
                fmt::format("{} of {}", round, other));
    }
    co_await job->loop.sleep_for(base::Duration(job->random.below(3'000'000'000)));
  }
  const LinkCounters counters = me.member->link_counters();
  EXPECT_EQ(counters.gathers_sent, 5U);
  EXPECT_EQ(counters.gather_bytes_sent, 5 * std::string("0 of 0").size());
  // One each quarter of the peer time-out; this rank's own clock began when it joined.
  const auto quarters = static_cast<std::uint64_t>((job->loop.now() - began) / 250ms);
  EXPECT_GE(counters.heartbeats_sent + 1, quarters);
  EXPECT_LE(counters.heartbeats_sent, quarters);
  me.member->ship(blob_of(fmt::format("record of {}", rank)));
  auto left = co_await me.member->leave();
  if (!left) me.error = left.error();
  me.ended = job->loop.now();
}

TEST(Membership, JoinsGathersShipsAndLeavesWithAnyNumberOfRanks) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    SimulatedJob job(ranks, static_cast<std::uint64_t>(ranks));
    std::vector<std::string> shipped(static_cast<std::size_t>(ranks));
    job.start_hub();
    job.hub->on_shipped([&shipped](int rank, const Blob& blob) {
      shipped[static_cast<std::size_t>(rank)] += text_of(blob);
    });
    for (int rank = 0; rank < ranks; ++rank) job.loop.spawn(whole_life(&job, rank));
    job.loop.run();  // ends by itself: no timer goes on after the end
    EXPECT_TRUE(job.all_ended());
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_FALSE(job[rank].error) << job[rank].error->message;
      EXPECT_EQ(shipped[static_cast<std::size_t>(rank)], fmt::format("record of {}", rank));
    }
  }
}

Task<void> long_last_work(SimulatedJob* job, bool* begun, bool* done) {
  *begun = true;
  for (int rank = 0; rank < job->ranks(); ++rank) EXPECT_LT((*job)[rank].ended.count(), 0);
  co_await job->loop.sleep_for(5 * job->options.peer_timeout);
  *done = true;
}

TEST(Membership, NobodyIsDismissedBeforeTheLastWorkIsDone) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    SimulatedJob job(ranks, 5);
    int shipped = 0;
    bool begun = false;
    bool done = false;
    job.start_hub();
    job.hub->on_shipped([&shipped](int, const Blob&) { ++shipped; });
    job.hub->before_dismissal([&] {
      EXPECT_EQ(shipped, ranks);
      return long_last_work(&job, &begun, &done);
    });
    for (int rank = 0; rank < ranks; ++rank) job.loop.spawn(whole_life(&job, rank));
    job.loop.run();
    EXPECT_TRUE(done);
    EXPECT_TRUE(job.all_ended());
    for (int rank = 0; rank < ranks; ++rank) EXPECT_FALSE(job[rank].error);
  }
}

TEST(Membership, ALossOfRank0DuringTheLastWorkIsNoticed) {
  for (const FaultKind kind : {FaultKind::killed, FaultKind::stopped}) {
    SimulatedJob job(3, 6);
    bool begun = false;
    bool done = false;
    job.faulty = 0;
    job.start_hub();
    job.hub->before_dismissal([&] {
      job.plan_fault(kind, 0, job.loop.now() + job.options.peer_timeout);
      return long_last_work(&job, &begun, &done);
    });
    for (int rank = 0; rank < 3; ++rank) job.loop.spawn(whole_life(&job, rank));
    job.loop.call_after(60s, [&] { job.hub.reset(); });
    job.loop.run();
    EXPECT_TRUE(begun);
    for (int rank = 1; rank < 3; ++rank) {
      ASSERT_TRUE(job[rank].error);
      EXPECT_EQ(job[rank].error->kind, ErrorKind::peer_lost);
      EXPECT_EQ(job[rank].error->rank, 0);
    }
  }
}

struct Attempt {
  std::optional<base::Error> error;
  std::unique_ptr<Member> member;
};

// Rank 0 of a job of two waits; somebody else tries to join.
std::string refusal(JobIdentity identity, int rank) {
  SimulatedJob job(2, 3);
  job.start_hub();
  Attempt first;
  Attempt other;
  Attempt second;
  job.loop.spawn(join_as(&job, 0, job.identity, &first.error, &first.member));
  job.loop.call_after(
      100ms, [&] { job.loop.spawn(join_as(&job, rank, identity, &other.error, &other.member)); });
  // The right one comes later and is not disturbed.
  job.loop.call_after(200ms, [&] {
    job.loop.spawn(join_as(&job, 1, job.identity, &second.error, &second.member));
  });
  job.loop.call_after(1s, [&] {
    first.member.reset();
    second.member.reset();
    job.hub.reset();
  });
  bool joined = false;
  job.loop.call_after(900ms, [&] { joined = first.member && second.member; });
  job.loop.run();
  EXPECT_TRUE(joined);
  EXPECT_TRUE(other.error);
  if (!other.error) return "joined";
  EXPECT_EQ(other.error->kind, ErrorKind::refused);
  return other.error->message;
}

TEST(Membership, RefusesByName) {
  const JobIdentity right = SimulatedJob(2, 3).identity;
  JobIdentity identity = right;
  identity.token = "guess";
  EXPECT_EQ(refusal(identity, 1), "refused: wrong job token");
  identity.token = "";
  EXPECT_EQ(refusal(identity, 1), "refused: wrong job token");
  identity.token = "secretsecret";
  EXPECT_EQ(refusal(identity, 1), "refused: wrong job token");
  identity = right;
  identity.version = "0.2.0";
  EXPECT_EQ(refusal(identity, 1), "refused: version 0.2.0 here, 0.1.0 there");
  identity = right;
  identity.configuration = "learning_rate=0.02\nseed=8\n";
  EXPECT_EQ(refusal(identity, 1),
            "refused: configuration differs: learning_rate is 0.02 here, 0.01 there");
  identity.configuration = "learning_rate=0.01\n";
  EXPECT_EQ(refusal(identity, 1), "refused: configuration differs: seed is nothing here, 7 there");
  identity = right;
  EXPECT_EQ(refusal(identity, 0), "refused: rank 0 has already joined");
  EXPECT_EQ(refusal(identity, 7), "refused: rank 7 is not in a job of 2");
  EXPECT_EQ(refusal(identity, -1), "refused: rank -1 is not in a job of 2");
  identity.world_size = 3;
  EXPECT_EQ(refusal(identity, 1), "refused: world size 3 here, 2 there");
}

TEST(Membership, AStrangerLearnsOnlyThatTheTokenIsWrong) {
  JobIdentity identity = SimulatedJob(2, 3).identity;
  identity.token = "guess";
  identity.version = "9";
  identity.configuration = "seed=8\n";
  EXPECT_EQ(refusal(identity, 17), "refused: wrong job token");
}

TEST(Membership, NamesTheRanksThatDidNotJoin) {
  SimulatedJob job(4, 1);
  job.start_hub();
  Attempt zero;
  Attempt two;
  Attempt other;
  JobIdentity wrong = job.identity;
  wrong.version = "0.0.9";
  job.loop.spawn(join_as(&job, 0, job.identity, &zero.error, &zero.member));
  job.loop.spawn(join_as(&job, 2, job.identity, &two.error, &two.member));
  job.loop.spawn(join_as(&job, 3, wrong, &other.error, &other.member));
  job.loop.run();
  const std::string expected =
      "ranks 1, 3 did not join within 5 s; rank 3 was refused: version 0.0.9 here, 0.1.0 there";
  for (const Attempt* attempt : {&zero, &two}) {
    ASSERT_TRUE(attempt->error);
    EXPECT_EQ(attempt->error->message, expected);
    EXPECT_EQ(attempt->error->kind, ErrorKind::deadline_exceeded);
  }
  EXPECT_EQ(job.loop.now() / 1s, 5);
}

TEST(Membership, AFailureOfARanksOwnIsGivenInItsWords) {
  SimulatedJob job(3, 1);
  job.start_hub();
  std::vector<Attempt> ranks(3);
  std::vector<std::string> verdicts(3);
  for (int rank = 0; rank < 3; ++rank) {
    auto& attempt = ranks[static_cast<std::size_t>(rank)];
    job.loop.spawn(join_as(&job, rank, job.identity, &attempt.error, &attempt.member));
  }
  job.loop.call_after(1s, [&] {
    for (std::size_t rank = 0; rank < 3; ++rank) {
      ranks[rank].member->on_verdict(
          [&verdicts, rank](const Verdict& verdict) { verdicts[rank] += verdict.error().message; });
    }
    ranks[1].member->set_phase("train");
    ranks[1].member->report_failure("loss is nan at step 12");
  });
  // The others see its links end a little later; the first verdict stays.
  job.loop.call_after(1100ms, [&] { ranks[2].member->suspect(1, "its data link closed"); });
  job.loop.call_after(2s, [&] {
    // Known already: at once.
    std::string again;
    ranks[0].member->on_verdict([&](const Verdict& verdict) { again = verdict.error().message; });
    EXPECT_EQ(again, "rank 1 failed: loss is nan at step 12");
    ranks.clear();
    job.hub.reset();
  });
  job.loop.run();
  EXPECT_EQ(verdicts, std::vector<std::string>(3, "rank 1 failed: loss is nan at step 12"));
}

TEST(Membership, SaysPhaseAndSilenceOfALostRank) {
  SimulatedJob job(3, 1);
  job.options.peer_timeout = 10s;
  job.faulty = 2;
  job.kind = FaultKind::stopped;
  job.start_hub();
  std::vector<Attempt> ranks(3);
  for (int rank = 0; rank < 3; ++rank) {
    auto& attempt = ranks[static_cast<std::size_t>(rank)];
    job.loop.spawn(join_as(&job, rank, job.identity, &attempt.error, &attempt.member));
  }
  std::string verdict;
  job.loop.call_after(1s, [&] {
    ranks[2].member->set_phase("evaluate");
    ranks[1].member->on_verdict([&](const Verdict& v) { verdict = v.error().message; });
  });
  job.plan_fault(FaultKind::stopped, 2, 2s);
  job.loop.call_after(30s, [&] {
    ranks.clear();
    job.hub.reset();
  });
  job.loop.run();
  EXPECT_EQ(verdict, "peer lost: rank 2, in phase evaluate: no heartbeat for 10.0 s");
}

Task<void> say(SimulatedJob* job, std::unique_ptr<Link>* link, std::vector<Frame> frames,
               std::optional<base::Error>* end) {
  *link = job->connect(5);
  for (Frame& frame : frames) (*link)->send(std::move(frame));
  while (true) {
    auto frame = co_await (*link)->receive();
    if (!frame) {
      *end = frame.error();
      co_return;
    }
  }
}

TEST(Membership, StrangersThatTalkNonsenseOrNothingAreForgotten) {
  SimulatedJob job(1, 1);
  job.start_hub();
  std::vector<std::unique_ptr<Link>> links(3);
  std::vector<std::optional<base::Error>> ends(3);
  std::vector<Frame> nonsense{Frame(100, std::byte{0x47})};
  std::vector<Frame> no_hello{encode(Heartbeat())};
  job.loop.spawn(say(&job, &links[0], nonsense, &ends[0]));
  job.loop.spawn(say(&job, &links[1], no_hello, &ends[1]));
  job.loop.spawn(say(&job, &links[2], {}, &ends[2]));
  job.loop.call_after(500ms, [&] {
    EXPECT_TRUE(ends[0]);
    EXPECT_TRUE(ends[1]);
    EXPECT_FALSE(ends[2]);  // has still time to say hello
    job.loop.spawn(whole_life(&job, 0));
  });
  job.loop.run();
  EXPECT_TRUE(ends[2]);
  EXPECT_TRUE(job.all_ended());
  EXPECT_FALSE(job[0].error);
}

TEST(Membership, ManyWhoKeepSilentDoNotKeepARankOut) {
  SimulatedJob job(2, 1);
  job.start_hub();
  std::vector<std::unique_ptr<Link>> links;
  for (int i = 0; i < 1000; ++i) links.push_back(job.connect(1));
  for (int rank = 0; rank < 2; ++rank) job.loop.spawn(whole_life(&job, rank));
  job.loop.run();
  EXPECT_TRUE(job.all_ended());
  for (int rank = 0; rank < 2; ++rank) EXPECT_FALSE(job[rank].error);
}

TEST(Membership, AnAllGatherWithoutARankThatLeftFails) {
  SimulatedJob job(2, 1);
  job.start_hub();
  std::vector<Attempt> ranks(2);
  for (int rank = 0; rank < 2; ++rank) {
    auto& attempt = ranks[static_cast<std::size_t>(rank)];
    job.loop.spawn(join_as(&job, rank, job.identity, &attempt.error, &attempt.member));
  }
  std::optional<base::Error> left;
  std::optional<base::Error> gathered;
  auto leave = [&]() -> Task<void> {
    auto result = co_await ranks[1].member->leave();
    if (!result) left = result.error();
  };
  auto gather = [&]() -> Task<void> {
    auto result = co_await ranks[0].member->all_gather(Blob());
    if (!result) gathered = result.error();
  };
  job.loop.call_after(1s, [&] { job.loop.spawn(leave()); });
  job.loop.call_after(2s, [&] { job.loop.spawn(gather()); });
  job.loop.call_after(9s, [&] {
    ranks.clear();
    job.hub.reset();
  });
  job.loop.run();
  ASSERT_TRUE(left);
  ASSERT_TRUE(gathered);
  EXPECT_THAT(gathered->message, HasSubstr("rank 1 failed: it left while the others gather"));
  EXPECT_EQ(*left, *gathered);
}

TEST(Membership, RanksThatGatherDifferentThingsEndTheJob) {
  SimulatedJob job(2, 1);
  job.start_hub();
  std::vector<Attempt> ranks(2);
  std::vector<std::optional<base::Error>> errors(2);
  for (int rank = 0; rank < 2; ++rank) {
    auto& attempt = ranks[static_cast<std::size_t>(rank)];
    job.loop.spawn(join_as(&job, rank, job.identity, &attempt.error, &attempt.member));
  }
  auto gather = [&](std::size_t rank, std::string_view what) -> Task<void> {
    auto agreed = co_await ranks[rank].member->all_gather(Blob(), "shards");
    EXPECT_TRUE(agreed);
    auto result = co_await ranks[rank].member->all_gather(Blob(), what);
    if (!result) errors[rank] = result.error();
  };
  job.loop.call_after(1s, [&] { job.loop.spawn(gather(0, "evaluation")); });
  job.loop.call_after(2s, [&] { job.loop.spawn(gather(1, "snapshot")); });
  job.loop.call_after(9s, [&] {
    ranks.clear();
    job.hub.reset();
  });
  job.loop.run();
  ASSERT_TRUE(errors[0]);
  EXPECT_THAT(errors[0]->message, HasSubstr("rank "));
  EXPECT_THAT(errors[0]->message, HasSubstr(" gathers \"evaluation\""));
  EXPECT_THAT(errors[0]->message, HasSubstr(" gathers \"snapshot\""));
  EXPECT_EQ(errors[0], errors[1]);
}

}  // namespace
}  // namespace dlobd::cluster::testing
