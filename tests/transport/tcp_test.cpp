// What is special about TCP: strangers, broken and stalled peers, system calls.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "group.h"
#include "raw_peer.h"
#include "transport/descriptor.h"
#include "transport/tcp/endpoint.h"
#include "transport/tcp/interface.h"

namespace dlobd::transport::tcp {
namespace {

using namespace std::chrono_literals;
using Bytes = std::vector<std::byte>;
using testing::HasSubstr;
using testing::StartsWith;

constexpr Kind kKind = 2;

Options quick_options() {
  Options options;
  options.token = "secret";
  options.peer_timeout = 400ms;
  options.hello_timeout = 200ms;
  options.connect_timeout = 5s;
  return options;
}

Hello hello_of(std::uint32_t rank, std::uint32_t peer, std::uint32_t world_size) {
  Hello hello;
  hello.rank = rank;
  hello.peer = peer;
  hello.world_size = world_size;
  hello.token = "secret";
  return hello;
}

// Endpoints on one loop, driven step by step from the test.
class TcpTest : public testing::Test {
 protected:
  ~TcpTest() override {
    for (auto& endpoint : endpoints_) {
      endpoint->fail(base::Error(base::ErrorKind::cancelled, "end of the test"));
    }
    run_for(10ms);
  }

  TcpEndpoint& add(int rank, int world_size, const Options& options, std::size_t region_bytes) {
    auto made = TcpEndpoint::make(loop_, rank, world_size, options);
    EXPECT_TRUE(made) << made.error().message;
    endpoints_.push_back(std::move(*made));
    TcpEndpoint& endpoint = *endpoints_.back();
    memory_.emplace_back(region_bytes);
    endpoint.register_memory(kRegion, memory_.back());
    endpoint.on_link_broken([this](int peer, const base::Error& why) {
      broken_.push_back(fmt::format("{}: {}", peer, why.message));
    });
    descriptors_.push_back(*endpoint.descriptor());
    return endpoint;
  }

  void run_for(base::Duration duration) {
    loop_.call_after(duration, [this] { loop_.stop(); });
    loop_.run();
  }

  // Runs until `done`, at most ten seconds.
  template <class Condition>
  void run_until(Condition done) {
    const base::Time limit = loop_.now() + 10s;
    while (!done() && loop_.now() < limit) run_for(2ms);
    EXPECT_TRUE(done());
  }

  base::Task<void> keep(base::Task<base::Result<void>> task,
                        std::optional<base::Result<void>>& to) {
    auto result = co_await std::move(task);
    to.emplace(std::move(result));
  }
  base::Task<void> keep_next(Endpoint& endpoint, std::optional<base::Result<Arrival>>& to) {
    auto result = co_await endpoint.next(kKind);
    to.emplace(std::move(result));
  }

  base::Result<void> run(base::Task<base::Result<void>> task) {
    std::optional<base::Result<void>> result;
    loop_.spawn(keep(std::move(task), result));
    run_until([&result] { return result.has_value(); });
    if (result) return *result;
    return base::fail(base::ErrorKind::deadline_exceeded, "the test hangs");
  }

  void connect_all() {
    std::vector<std::optional<base::Result<void>>> results(endpoints_.size());
    for (std::size_t i = 0; i < endpoints_.size(); ++i) {
      loop_.spawn(keep(endpoints_[i]->connect(descriptors_), results[i]));
    }
    run_until([&results] {
      return std::all_of(results.begin(), results.end(),
                         [](const auto& each) { return each.has_value(); });
    });
    for (const auto& result : results) {
      ASSERT_TRUE(result && *result) << (result ? result->error().message : "hangs");
    }
  }

  // A raw rank 0 that is connected to an endpoint of rank 1.
  RawPeer raw_rank_0(TcpEndpoint& endpoint, std::uint64_t raw_region_bytes = 1U << 30) {
    Descriptor raw;
    raw.regions[kRegion] = raw_region_bytes;
    descriptors_.insert(descriptors_.begin(), encode(raw));
    RawPeer peer(endpoint.port());
    peer.say(encode(hello_of(0, 1, 2)));
    auto connected = run(endpoint.connect(descriptors_));
    EXPECT_TRUE(connected) << connected.error().message;
    const Bytes answer = peer.hear();
    EXPECT_EQ(answer.size(), kHelloBytes);
    return peer;
  }

  FrameHeader frame(std::uint64_t bytes) {
    FrameHeader header;
    header.type = FrameType::write;
    header.notification.kind = kKind;
    header.region = kRegion;
    header.bytes = header.total_bytes = bytes;
    return header;
  }

  base::RealLoop loop_;
  std::deque<Bytes> memory_;
  std::vector<std::unique_ptr<TcpEndpoint>> endpoints_;
  std::vector<Bytes> descriptors_;
  std::vector<std::string> broken_;
};

Answer answer_in(const Bytes& bytes) {
  if (bytes.size() != kHelloBytes) return Answer::asking;
  const auto hello = parse_hello(std::span(bytes).first<kHelloBytes>());
  return hello ? hello->answer : Answer::asking;
}

TEST_F(TcpTest, StrangersAreDroppedAndHarmNothing) {
  add(0, 2, quick_options(), 100);
  TcpEndpoint& target = add(1, 2, quick_options(), 100);
  RawPeer silent(target.port());
  RawPeer garbage(target.port());
  garbage.say(Bytes(5000, std::byte{'x'}));
  RawPeer half(target.port());
  const HelloBytes whole = encode(hello_of(0, 1, 2));
  half.say(std::span(whole).first(40));
  RawPeer wrong_token(target.port());
  Hello stranger = hello_of(0, 1, 2);
  stranger.token = "guess";
  wrong_token.say(encode(stranger));
  RawPeer wrong_world(target.port());
  wrong_world.say(encode(hello_of(0, 1, 3)));
  RawPeer wrong_rank(target.port());
  wrong_rank.say(encode(hello_of(7, 1, 2)));
  RawPeer gone(target.port());
  gone.close();
  connect_all();
  RawPeer duplicate(target.port());
  duplicate.say(encode(hello_of(0, 1, 2)));
  run_for(400ms);

  const Bytes refusal = wrong_token.hear();
  EXPECT_EQ(answer_in(refusal), Answer::wrong_token);
  const std::string text(reinterpret_cast<const char*>(refusal.data()), refusal.size());
  EXPECT_EQ(text.find("secret"), std::string::npos);
  EXPECT_EQ(answer_in(wrong_world.hear()), Answer::wrong_rank);
  EXPECT_EQ(answer_in(wrong_rank.hear()), Answer::wrong_rank);
  EXPECT_EQ(answer_in(duplicate.hear()), Answer::duplicate);
  for (RawPeer* peer :
       {&silent, &garbage, &half, &wrong_token, &wrong_world, &wrong_rank, &duplicate}) {
    peer->hear();
    EXPECT_TRUE(peer->ended);
  }

  const Bytes bytes(100, std::byte{5});
  ASSERT_TRUE(run(endpoints_[0]->write(Write(1, kRegion, 0, bytes, {kKind, 0}))));
  run_until([&] { return target.counters().received_of(Traffic::data).messages == 1; });
  EXPECT_EQ(memory_[1], bytes);
  EXPECT_TRUE(broken_.empty());
}

TEST_F(TcpTest, AnotherTokenIsRefusedByName) {
  add(0, 2, quick_options(), 0);
  Options other = quick_options();
  other.token = "another job";
  other.connect_timeout = 300ms;
  add(1, 2, other, 0);
  std::optional<base::Result<void>> listening;
  loop_.spawn(keep(endpoints_[1]->connect(descriptors_), listening));
  const auto refused = run(endpoints_[0]->connect(descriptors_));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, base::ErrorKind::refused);
  EXPECT_EQ(refused.error().rank, 1);
  EXPECT_THAT(refused.error().message,
              StartsWith("cannot connect to a peer: rank 1 at 127.0.0.1:"));
  EXPECT_THAT(refused.error().message, HasSubstr("refused: another job's token"));
  run_until([&] { return listening.has_value(); });
  ASSERT_FALSE(*listening);
  EXPECT_EQ(listening->error().message, "peers did not connect in 300 ms: ranks 0");
  EXPECT_EQ(listening->error().rank, 0);
}

TEST_F(TcpTest, APeerThatIsNotThereIsNamed) {
  TcpEndpoint& endpoint = add(0, 2, quick_options(), 0);
  Descriptor nobody;
  nobody.address = "127.0.0.1";
  {
    auto closed = Listener::open(loop_, Options{});
    nobody.port = (*closed)->port();
    (*closed)->close();
  }
  descriptors_.push_back(encode(nobody));
  const auto connected = run(endpoint.connect(descriptors_));
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().kind, base::ErrorKind::peer_lost);
  EXPECT_EQ(connected.error().message,
            fmt::format("cannot connect to a peer: rank 1 at 127.0.0.1:{}: Connection refused",
                        nobody.port));
}

TEST_F(TcpTest, AddressesAndTokensAreChecked) {
  Options options;
  options.address = "203.0.113.1";  // of nobody
  auto made = TcpEndpoint::make(loop_, 0, 1, options);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, StartsWith("cannot listen on an address: 203.0.113.1"));
  options.address = "no address";
  EXPECT_FALSE(TcpEndpoint::make(loop_, 0, 1, options));
  options = Options{};
  options.token = std::string(65, 'x');
  EXPECT_FALSE(TcpEndpoint::make(loop_, 0, 1, options));
  options = Options{};
  options.connections_per_peer = 0;
  EXPECT_FALSE(TcpEndpoint::make(loop_, 0, 1, options));
}

TEST_F(TcpTest, APeerThatEndsInTheMiddleOfAMessage) {
  TcpEndpoint& endpoint = add(1, 2, quick_options(), 65536);
  RawPeer peer = raw_rank_0(endpoint);
  std::optional<base::Result<Arrival>> arrival;
  loop_.spawn(keep_next(endpoint, arrival));
  peer.say(frame(65536));
  peer.say(Bytes(4096, std::byte{3}));
  run_for(50ms);
  EXPECT_TRUE(broken_.empty());
  peer.close();
  run_until([&] { return !broken_.empty(); });
  EXPECT_EQ(broken_,
            std::vector<std::string>{"0: peer closed the connection while receiving a message: "
                                     "rank 0, 4096 of 65536 bytes"});
  EXPECT_FALSE(arrival.has_value());  // waits for the verdict
  endpoint.fail(base::Error(base::ErrorKind::peer_lost, "peer lost: rank 0", 0));
  run_for(10ms);
  ASSERT_TRUE(arrival.has_value());
  EXPECT_EQ(arrival->error().message, "peer lost: rank 0");
}

TEST_F(TcpTest, APeerThatStopsInTheMiddleOfAMessage) {
  TcpEndpoint& endpoint = add(1, 2, quick_options(), 65536);
  RawPeer peer = raw_rank_0(endpoint);
  peer.say(frame(65536));
  peer.say(Bytes(4096, std::byte{3}));
  const base::Time begin = loop_.now();
  run_until([&] { return !broken_.empty(); });
  EXPECT_GE(loop_.now() - begin, 390ms);
  EXPECT_EQ(broken_,
            std::vector<std::string>{"0: the peer stopped in the middle of a message: rank 0, "
                                     "none in 400 ms, 4096 of 65536 bytes"});
}

TEST_F(TcpTest, APeerThatDoesNotReadBreaksTheLinkAndTheWriterWaitsForTheVerdict) {
  TcpEndpoint& endpoint = add(1, 2, quick_options(), 0);
  RawPeer peer = raw_rank_0(endpoint);
  const Bytes bytes(64U << 20);
  std::optional<base::Result<void>> wrote;
  const base::Time begin = loop_.now();
  loop_.spawn(keep(endpoint.write(Write(0, kRegion, 0, bytes, {kKind, 0})), wrote));
  run_until([&] { return !broken_.empty(); });
  EXPECT_GE(loop_.now() - begin, 390ms);
  EXPECT_LE(loop_.now() - begin, 5s);
  ASSERT_EQ(broken_.size(), 1U);
  EXPECT_THAT(broken_[0], StartsWith("0: the peer takes no more bytes: rank 0, none in 400 ms, "));
  run_for(50ms);
  EXPECT_FALSE(wrote.has_value());
  endpoint.fail(base::Error(base::ErrorKind::peer_lost, "peer lost: rank 0", 0));
  run_until([&] { return wrote.has_value(); });
  ASSERT_FALSE(*wrote);
  EXPECT_EQ(wrote->error().message, "peer lost: rank 0");
}

// What comes in is no excuse for what does not go out.
TEST_F(TcpTest, APeerThatSendsButDoesNotReadBreaksTheLink) {
  TcpEndpoint& endpoint = add(1, 2, quick_options(), 100);
  RawPeer peer = raw_rank_0(endpoint);
  const Bytes bytes(64U << 20);
  std::optional<base::Result<void>> wrote;
  const base::Time begin = loop_.now();
  loop_.spawn(keep(endpoint.write(Write(0, kRegion, 0, bytes, {kKind, 0})), wrote));
  FrameHeader header = frame(10);
  for (; broken_.empty() && loop_.now() - begin < 5s; ++header.sequence) {
    peer.say(header);
    peer.say(Bytes(10));
    run_for(20ms);
  }
  EXPECT_GE(loop_.now() - begin, 390ms);
  ASSERT_EQ(broken_.size(), 1U);
  EXPECT_THAT(broken_[0], StartsWith("0: the peer takes no more bytes: rank 0, none in 400 ms, "));
  EXPECT_GE(endpoint.counters().received_of(Traffic::data).messages, 10U);
  endpoint.fail(base::Error(base::ErrorKind::cancelled, "end of the test"));
  run_until([&] { return wrote.has_value(); });
}

// Stopped for longer than a peer may be silent: what came meanwhile is read before anybody is
// blamed.
TEST_F(TcpTest, AfterAPauseOfOnesOwnNobodyIsBlamed) {
  TcpEndpoint& endpoint = add(1, 2, quick_options(), 65536);
  RawPeer peer = raw_rank_0(endpoint);
  const Bytes bytes(16U << 20);
  std::optional<base::Result<void>> wrote;
  loop_.spawn(keep(endpoint.write(Write(0, kRegion, 0, bytes, {kKind, 0})), wrote));
  std::optional<base::Result<Arrival>> arrival;
  loop_.spawn(keep_next(endpoint, arrival));
  peer.say(frame(65536));
  peer.say(Bytes(4096));
  run_for(50ms);
  std::this_thread::sleep_for(600ms);  // the kernel's own limit is twice the time-out
  run_for(20ms);
  EXPECT_EQ(broken_, std::vector<std::string>());
  peer.say(Bytes(65536 - 4096));
  std::size_t heard = 0;
  run_until([&] {
    heard += peer.hear().size();
    return wrote && arrival;
  });
  EXPECT_EQ(broken_, std::vector<std::string>());
}

TEST_F(TcpTest, ASilentPeerWithNothingToSayIsNoFailure) {
  TcpEndpoint& endpoint = add(1, 2, quick_options(), 100);
  RawPeer peer = raw_rank_0(endpoint);
  run_for(1s);
  EXPECT_TRUE(broken_.empty());
}

TEST_F(TcpTest, FramesThatNoPeerMaySendBreakOnlyTheirLink) {
  std::vector<std::pair<std::string, HeaderBytes>> cases;
  const auto add_case = [&cases](std::string words, const FrameHeader& header) {
    HeaderBytes bytes;
    encode(header, bytes);
    cases.emplace_back(std::move(words), bytes);
  };
  FrameHeader header = frame(101);
  add_case("a write outside its region: region 1, 101 bytes at 0 of 100", header);
  header = frame(10);
  header.offset_bytes = ~std::uint64_t{0} - 4;
  add_case("a write outside its region", header);
  header = frame(10);
  header.region = 9;
  add_case("a write to a region that is not registered: 9", header);
  header = frame(kMaxMessageBytes + 1);
  header.type = FrameType::message;
  add_case("a two-sided message is too large or in parts: 65537", header);
  header = frame(10);
  header.total_bytes = 9;
  add_case("a frame is larger than its message", header);
  HeaderBytes bytes;
  encode(frame(10), bytes);
  for (const auto& [at, words] :
       std::vector<std::pair<std::size_t, std::string>>{{0, "no frame begins here"},
                                                        {4, "unknown type of frame: 254"},
                                                        {5, "unknown kind of message: 254"},
                                                        {6, "unknown traffic class: 254"},
                                                        {7, "must be zero"}}) {
    HeaderBytes mutated = bytes;
    mutated[at] = std::byte{254};
    cases.emplace_back(words, mutated);
  }
  for (const auto& [words, wrong] : cases) {
    TcpEndpoint& endpoint = add(1, 2, quick_options(), 100);
    RawPeer peer = raw_rank_0(endpoint);
    peer.say(wrong);
    run_until([&] { return !broken_.empty(); });
    ASSERT_EQ(broken_.size(), 1U);
    EXPECT_THAT(broken_[0], StartsWith("0: peer sent what no frame may hold: rank 0: "));
    EXPECT_THAT(broken_[0], HasSubstr(words));
    EXPECT_FALSE(endpoint.error());
    EXPECT_TRUE(std::all_of(memory_.back().begin(), memory_.back().end(),
                            [](std::byte byte) { return byte == std::byte{0}; }));
    broken_.clear();
    descriptors_.clear();
  }
}

TEST_F(TcpTest, MessagesThatAreNotToComeAreNotKept) {
  TcpEndpoint& endpoint = add(1, 2, quick_options(), 100);
  RawPeer peer = raw_rank_0(endpoint);
  FrameHeader header = frame(10);
  header.sequence = 1U << 14;
  peer.say(header);
  peer.say(Bytes(10));
  run_for(50ms);
  EXPECT_TRUE(broken_.empty());
  ++header.sequence;
  peer.say(header);
  run_until([&] { return !broken_.empty(); });
  ASSERT_EQ(broken_.size(), 1U);
  EXPECT_THAT(broken_[0],
              HasSubstr("a message has a number that is not to come: 16385, the next is 0"));
}

TEST_F(TcpTest, PartsOfAMessageBringEachByteOnce) {
  Options options = quick_options();
  options.connections_per_peer = 2;
  TcpEndpoint& endpoint = add(1, 2, options, 100);
  RawPeer other(endpoint.port());
  Hello hello = hello_of(0, 1, 2);
  hello.connection = 1;
  other.say(encode(hello));
  RawPeer peer = raw_rank_0(endpoint);
  FrameHeader part = frame(50);
  part.total_bytes = 100;
  for (const RawPeer* each : {&peer, &other}) {
    each->say(part);
    each->say(Bytes(50));
  }
  run_until([&] { return !broken_.empty(); });
  ASSERT_EQ(broken_.size(), 1U);
  EXPECT_THAT(broken_[0], HasSubstr("parts of a message overlap: number 0, 50 bytes at 0 of 100"));
  EXPECT_EQ(endpoint.counters().received_of(Traffic::data).messages, 0U);
}

// It may be on its way on two connections at once.
TEST_F(TcpTest, AMessageThatComesTwiceIsTakenOnce) {
  Options options = quick_options();
  options.connections_per_peer = 2;
  TcpEndpoint& endpoint = add(1, 2, options, 100);
  RawPeer other(endpoint.port());
  Hello hello = hello_of(0, 1, 2);
  hello.connection = 1;
  other.say(encode(hello));
  RawPeer peer = raw_rank_0(endpoint);
  for (const RawPeer* each : {&peer, &other}) {
    each->say(frame(50));
    run_for(20ms);
  }
  for (const RawPeer* each : {&peer, &other}) {
    each->say(Bytes(50));
    run_for(20ms);
  }
  ASSERT_EQ(broken_.size(), 1U);
  EXPECT_THAT(broken_[0], HasSubstr("a message that has arrived before: number 0"));
  EXPECT_EQ(endpoint.counters().received_of(Traffic::data).messages, 1U);
}

TEST_F(TcpTest, ASmallMessageIsOneSystemCallOnEachSide) {
  TcpEndpoint& sender = add(0, 2, quick_options(), 4096);
  TcpEndpoint& receiver = add(1, 2, quick_options(), 4096);
  connect_all();
  const Bytes bytes(4096, std::byte{1});
  for (std::uint64_t i = 1; i <= 10; ++i) {
    ASSERT_TRUE(run(sender.write(Write(1, kRegion, 0, bytes, {kKind, 0}))));
    run_until([&] { return receiver.counters().received_of(Traffic::data).messages == i; });
    EXPECT_EQ(sender.system_calls().sends, i);
    EXPECT_EQ(receiver.system_calls().receives, i);
    EXPECT_EQ(sender.system_calls().sent_bytes, i * (4096 + kHeaderBytes));
  }
}

TEST_F(TcpTest, PiecesAreASystemCallEach) {
  Options options = quick_options();
  options.piece_bytes = 256;
  TcpEndpoint& sender = add(0, 2, options, 100'000);
  TcpEndpoint& receiver = add(1, 2, options, 100'000);
  connect_all();
  std::uint64_t expected = 0;
  std::uint64_t messages = 0;
  for (const std::size_t size : {0U, 1U, 256U, 257U, 1000U, 100'000U}) {
    const Bytes bytes(size, std::byte{1});
    ASSERT_TRUE(run(sender.write(Write(1, kRegion, 0, bytes, {kKind, 0}))));
    ++messages;
    run_until([&] { return receiver.counters().received_of(Traffic::data).messages == messages; });
    expected += 1 + (size + 255) / 256;  // the header, then the pieces
    EXPECT_EQ(sender.system_calls().sends, expected) << size;
    EXPECT_GE(receiver.system_calls().receives, expected) << size;
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), memory_[1].begin()));
  }
}

TEST_F(TcpTest, AWriteToAPeerThatHasLeftIsABrokenLink) {
  TcpEndpoint& stays = add(0, 2, quick_options(), 100);
  TcpEndpoint& leaves = add(1, 2, quick_options(), 100);
  connect_all();
  const auto left = run(leaves.shutdown());
  ASSERT_FALSE(left);  // the other did not say goodbye
  EXPECT_EQ(left.error().message, "no goodbye in 400 ms: ranks 0");
  EXPECT_EQ(left.error().rank, 0);
  run_for(20ms);
  // For the one that stays the other left in order.
  EXPECT_EQ(broken_, std::vector<std::string>{"0: no goodbye in 400 ms: ranks 0"});
  broken_.clear();
  const Bytes bytes(100);
  std::optional<base::Result<void>> wrote;
  loop_.spawn(keep(stays.write(Write(1, kRegion, 0, bytes, {kKind, 0})), wrote));
  run_until([&] { return !broken_.empty(); });
  EXPECT_EQ(broken_, std::vector<std::string>{"1: the peer left before this message: rank 1"});
  EXPECT_FALSE(wrote.has_value());
  stays.fail(base::Error(base::ErrorKind::cancelled, "end of the test"));
  run_until([&] { return wrote.has_value(); });
}

TEST(Interfaces, AreFoundByNameOrListed) {
  const auto loopback = interface_address("lo");
  ASSERT_TRUE(loopback);
  EXPECT_EQ(*loopback, "127.0.0.1");
  EXPECT_EQ(interface_of_address("127.0.0.1"), "lo");
  const auto unknown = interface_address("nowhere0");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(
      unknown.error().message,
      StartsWith("no network interface of this name has an address: nowhere0; there are: "));
  EXPECT_THAT(unknown.error().message, HasSubstr("lo (127.0.0.1)"));
}

}  // namespace
}  // namespace dlobd::transport::tcp
