#include "cluster/tcp_link.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "cluster/membership.h"

namespace dlobd::cluster {
namespace {

using namespace std::chrono_literals;
using base::ErrorKind;
using base::Task;
using ::testing::HasSubstr;

TEST(HostPort, ReadsNamesAndNumbers) {
  const auto name = parse_host_port("node1:7000");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->host, "node1");
  EXPECT_EQ(name->port, "7000");
  const auto six = parse_host_port("[::1]:0");
  ASSERT_TRUE(six);
  EXPECT_EQ(six->host, "::1");
  for (const char* const bad :
       {"", "node1", ":7000", "node1:", "node1:70000", "node1:7x", "::1:7000", "[::1:7000"}) {
    const auto result = parse_host_port(bad);
    ASSERT_FALSE(result) << bad;
    EXPECT_EQ(result.error().kind, ErrorKind::invalid_argument);
  }
}

TEST(Listener, SaysThatAPortIsBusy) {
  base::RealLoop loop;
  auto first = Listener::bind(loop, "127.0.0.1:0");
  ASSERT_TRUE(first);
  const std::string address = (*first)->address();
  EXPECT_EQ(address, fmt::format("127.0.0.1:{}", (*first)->port()));
  const auto second = Listener::bind(loop, address);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("cannot listen on " + address));
  EXPECT_THAT(second.error().message, HasSubstr("address in use"));
  first->reset();
  EXPECT_TRUE(Listener::bind(loop, address));
}

TEST(Listener, SaysThatAnAddressIsNotOfThisHost) {
  const auto elsewhere = listen_on("192.0.2.1:0");
  ASSERT_FALSE(elsewhere);
  EXPECT_THAT(elsewhere.error().message, HasSubstr("no such address"));
}

Task<void> dial_into(base::Loop* loop, std::string address, base::Duration patience,
                     std::unique_ptr<Link>* link, std::optional<base::Error>* error) {
  auto dialled = co_await dial(*loop, std::move(address), loop->now() + patience);
  if (dialled) {
    *link = std::move(*dialled);
  } else {
    *error = dialled.error();
  }
  loop->stop();
}

TEST(Dial, WaitsForAListenerThatComesLater) {
  base::RealLoop loop;
  auto listener = Listener::bind(loop, "127.0.0.1:0");
  ASSERT_TRUE(listener);
  const std::string address = (*listener)->address();
  listener->reset();
  std::unique_ptr<Link> link;
  std::unique_ptr<Link> accepted;
  std::optional<base::Error> error;
  loop.spawn(dial_into(&loop, address, 10s, &link, &error));
  loop.call_after(100ms, [&] {
    listener = Listener::bind(loop, address);
    ASSERT_TRUE(listener);
    (*listener)->on_link([&](std::unique_ptr<Link> come) { accepted = std::move(come); });
  });
  loop.run();
  EXPECT_FALSE(error);
  ASSERT_TRUE(link);
  EXPECT_EQ(link->peer(), address);
}

TEST(Dial, NamesHostPortAndReasonWhenNobodyIsThere) {
  base::RealLoop loop;
  auto listener = Listener::bind(loop, "127.0.0.1:0");
  ASSERT_TRUE(listener);
  const std::uint16_t port = (*listener)->port();
  listener->reset();
  std::unique_ptr<Link> link;
  std::optional<base::Error> error;
  const base::Time start = loop.now();
  loop.spawn(dial_into(&loop, fmt::format("127.0.0.1:{}", port), 300ms, &link, &error));
  loop.run();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, ErrorKind::deadline_exceeded);
  EXPECT_THAT(error->message, HasSubstr(fmt::format("host 127.0.0.1, port {}", port)));
  EXPECT_THAT(error->message, HasSubstr("refused"));
  EXPECT_LT(loop.now() - start, 5s);
}

struct Ends {
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Link> dialled;
  std::unique_ptr<Link> accepted;
};

Task<void> connect_both(base::Loop* loop, Ends* ends) {
  auto listener = Listener::bind(*loop, "127.0.0.1:0");
  ends->listener = std::move(*listener);
  ends->listener->on_link([ends](std::unique_ptr<Link> link) { ends->accepted = std::move(link); });
  auto dialled = co_await dial(*loop, ends->listener->address(), loop->now() + 5s);
  ends->dialled = std::move(*dialled);
  while (!ends->accepted) co_await loop->sleep_for(1ms);
}

Task<void> many_frames(base::Loop* loop, Ends* ends, int* good) {
  co_await connect_both(loop, ends);
  ends->accepted->lift_limit();
  // Sizes around the borders of buffers, and one of several MiB; both directions.
  const std::vector<std::size_t> sizes{0, 1, 5, 4095, 65536, 1 << 20, 5 << 20};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    ends->dialled->send(Frame(sizes[i], static_cast<std::byte>(i)));
    ends->accepted->send(Frame(sizes[i], static_cast<std::byte>(i + 100)));
  }
  for (int n = 0; n < 100; ++n) ends->dialled->send(Frame(3, static_cast<std::byte>(n)));
  ends->dialled->close();  // what is queued still arrives
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    auto frame = co_await ends->accepted->receive();
    if (frame && *frame == Frame(sizes[i], static_cast<std::byte>(i))) ++*good;
  }
  for (int n = 0; n < 100; ++n) {
    auto frame = co_await ends->accepted->receive();
    if (frame && *frame == Frame(3, static_cast<std::byte>(n))) ++*good;
  }
  auto end = co_await ends->accepted->receive();
  if (!end && end.error().kind == ErrorKind::io_error) ++*good;
  loop->stop();
}

TEST(TcpLink, CarriesFramesOfAnySizeThenTheEnd) {
  base::RealLoop loop;
  Ends ends;
  int good = 0;
  loop.spawn(many_frames(&loop, &ends, &good));
  loop.run();
  EXPECT_EQ(good, 7 + 100 + 1);
}

Task<void> too_large(base::Loop* loop, Ends* ends, std::optional<base::Error>* error) {
  co_await connect_both(loop, ends);
  ends->dialled->send(Frame(kMaxHelloBytes + 1));
  auto frame = co_await ends->accepted->receive();
  if (!frame) *error = frame.error();
  loop->stop();
}

TEST(TcpLink, RefusesAFrameAboveTheLimitOfAStranger) {
  base::RealLoop loop;
  Ends ends;
  std::optional<base::Error> error;
  loop.spawn(too_large(&loop, &ends, &error));
  loop.run();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, ErrorKind::refused);
  EXPECT_THAT(error->message, HasSubstr(fmt::format("{}", kMaxHelloBytes + 1)));
}

// A plain socket to the hub, for clients that are none.
int raw_connect(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where), 0);
  return fd;
}

struct RankResult {
  std::optional<base::Error> error;
  std::vector<Blob> blobs;
};

JobIdentity identity_of(int ranks) {
  JobIdentity identity;
  identity.token = "secret";
  identity.version = "0.1.0";
  identity.world_size = ranks;
  return identity;
}

Task<void> member_life(base::Loop* loop, std::string address, JobIdentity identity, int rank,
                       Member::Options options, bool vanish, RankResult* result) {
  auto link = co_await dial(*loop, std::move(address), loop->now() + 5s);
  if (!link) {
    result->error = link.error();
  } else {
    auto joined = co_await Member::join(*loop, std::move(*link), identity, rank, options);
    if (!joined) {
      result->error = joined.error();
    } else {
      auto member = std::move(*joined);
      member->set_phase("train");
      Blob blob(8, static_cast<std::byte>(rank));
      auto gathered = co_await member->all_gather(std::move(blob));
      if (gathered) result->blobs = *gathered;
      if (!vanish) {
        if (rank == 1) co_await loop->sleep_for(50ms);
        auto left = co_await member->leave();
        if (!left) result->error = left.error();
      }
    }
  }
  loop->stop();
}

// Each rank on a thread and a loop of its own, over real sockets. `before` gets the hub's port.
template <class Before>
std::vector<RankResult> run_job(int ranks, int vanishing, Before before) {
  std::vector<RankResult> results(static_cast<std::size_t>(ranks));
  Member::Options options;
  options.peer_timeout = 2s;
  options.join_timeout = 10s;
  base::RealLoop hub_loop;
  auto listener = Listener::bind(hub_loop, "127.0.0.1:0");
  const std::string address = (*listener)->address();
  auto hub = Hub::make(hub_loop, identity_of(ranks), options);
  (*listener)->on_link([&hub](std::unique_ptr<Link> link) { hub->accept(std::move(link)); });
  std::thread hub_thread([&] { hub_loop.run(); });
  before((*listener)->port());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      base::RealLoop loop;
      loop.spawn(member_life(&loop, address, identity_of(ranks), rank, options, rank == vanishing,
                             &results[static_cast<std::size_t>(rank)]));
      loop.run();
    });
  }
  for (auto& thread : threads) thread.join();
  hub_loop.stop();
  hub_thread.join();
  hub.reset();
  listener->reset();
  return results;
}

void expect_whole(const std::vector<RankResult>& results) {
  for (const RankResult& result : results) {
    EXPECT_FALSE(result.error) << result.error->message;
    ASSERT_EQ(result.blobs.size(), results.size());
    for (std::size_t rank = 0; rank < results.size(); ++rank) {
      EXPECT_EQ(result.blobs[rank], Blob(8, static_cast<std::byte>(rank)));
    }
  }
}

TEST(TcpJob, RanksOnSeveralLoopsLiveAndLeave) {
  expect_whole(run_job(4, -1, [](std::uint16_t) {}));
}

TEST(TcpJob, GarbageSlowAndHugeClientsDisturbNobody) {
  std::vector<int> sockets;
  expect_whole(run_job(3, -1, [&](std::uint16_t port) {
    for (int i = 0; i < 4; ++i) sockets.push_back(raw_connect(port));
    const std::string request = "GET / HTTP/1.1\r\nHost: dlobd\r\n\r\n";
    ASSERT_GT(::write(sockets[0], request.data(), request.size()), 0);
    ASSERT_GT(::write(sockets[1], "\x10", 1), 0);  // a length that never gets whole
    ASSERT_GT(::write(sockets[2], "\xff\xff\xff\xff", 4), 0);
    // sockets[3] says nothing at all.
    ::close(raw_connect(port));
  }));
  // The hub has closed on the one that is no rank of ours.
  char byte = 0;
  EXPECT_LE(::read(sockets[2], &byte, 1), 0);
  for (const int fd : sockets) ::close(fd);
}

TEST(TcpJob, AWrongTokenIsRefusedByName) {
  RankResult stranger;
  std::thread thread;
  expect_whole(run_job(2, -1, [&](std::uint16_t port) {
    thread = std::thread([&stranger, port] {
      base::RealLoop loop;
      JobIdentity identity = identity_of(2);
      identity.token = "guess";
      loop.spawn(member_life(&loop, fmt::format("127.0.0.1:{}", port), identity, 1,
                             Member::Options(), false, &stranger));
      loop.run();
    });
    thread.join();
  }));
  ASSERT_TRUE(stranger.error);
  EXPECT_EQ(stranger.error->message, "refused: wrong job token");
}

TEST(TcpJob, ALinkThatEndsIsALostRank) {
  const auto results = run_job(3, 2, [](std::uint16_t) {});
  for (std::size_t rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(results[rank].error) << rank;
    EXPECT_EQ(results[rank].error->message,
              "peer lost: rank 2, in phase train: its control link closed");
  }
}

}  // namespace
}  // namespace dlobd::cluster
