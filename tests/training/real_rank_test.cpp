#include "training/real_rank.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>

#include "cluster/tcp_link.h"
#include "training/job_fixture.h"

namespace dlobd::training {
namespace {

using namespace std::chrono_literals;

class RealRankTest : public JobFixture {
 protected:
  // Two ranks of one job, each on a thread.
  std::future<bool> start(int rank, Observers observers) {
    Placement placement;
    placement.rank = rank;
    placement.rendezvous = rendezvous_;
    placement.listen_fd = rank == 0 ? listen_fd_ : -1;
    placement.token = "a token";
    return std::async(std::launch::async, [this, placement, observers = std::move(observers)] {
      const auto end = run_real_rank(config_, placement, *dataset_, *replicas_, observers);
      return end && *end == End::finished;
    });
  }

  void SetUp() override {
    JobFixture::SetUp();
    config_ = config("allreduce", std::nullopt, 2);
    config_.network = NetworkKind::tcp;
    auto replicas = Replicas::load(config_, model_, "");
    ASSERT_TRUE(replicas.has_value());
    replicas_.emplace(std::move(*replicas));
    const auto fd = cluster::listen_on("127.0.0.1:0");
    ASSERT_TRUE(fd.has_value());
    listen_fd_ = *fd;
    rendezvous_ = cluster::local_address(listen_fd_);
  }

  Config config_;
  std::optional<Replicas> replicas_;
  int listen_fd_ = -1;
  std::string rendezvous_;
};

TEST_F(RealRankTest, OthersAreHeldByASlowRecordForSoLongOnly) {
  std::promise<void> disk;
  bool recorded = false;
  bool let_go_early = false;
  Observers observers;
  observers.shipped = [](int, const metrics::Blob&) {};
  observers.record = [&](End) {
    disk.get_future().wait();
    recorded = true;
  };
  observers.record_patience = 100ms;
  observers.let_go_early = [&] { let_go_early = true; };
  auto rank_0 = start(0, observers);
  auto rank_1 = start(1, {});
  const bool let_go = rank_1.wait_for(30s) == std::future_status::ready;
  EXPECT_TRUE(let_go);
  EXPECT_EQ(rank_0.wait_for(100ms), std::future_status::timeout);  // it waits for its writer
  disk.set_value();
  EXPECT_TRUE(rank_1.get());
  EXPECT_TRUE(rank_0.get());
  EXPECT_TRUE(recorded);
  EXPECT_EQ(let_go_early, let_go);
}

TEST_F(RealRankTest, ARecordInTimeIsDoneWhenOthersAreLetGo) {
  bool recorded = false;
  bool let_go_early = false;
  Observers observers;
  observers.shipped = [](int, const metrics::Blob&) {};
  observers.record = [&](End) { recorded = true; };
  observers.let_go_early = [&] { let_go_early = true; };
  auto rank_0 = start(0, observers);
  auto rank_1 = start(1, {});
  EXPECT_TRUE(rank_0.get());
  EXPECT_TRUE(rank_1.get());
  EXPECT_TRUE(recorded);
  EXPECT_FALSE(let_go_early);
}

}  // namespace
}  // namespace dlobd::training
