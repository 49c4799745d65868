#include "cluster/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace dlobd::cluster {
namespace {

std::vector<std::byte> bytes(const char* text) {
  const auto view = std::as_bytes(std::span(text, std::char_traits<char>::length(text)));
  return {view.begin(), view.end()};
}

std::vector<Message> one_of_each() {
  std::vector<Message> all;
  all.push_back(Hello{"0.1.0", "secret", "seed=7\n", 3, 4, "node1"});
  all.push_back(Welcome{});
  all.push_back(Refuse{base::ErrorKind::deadline_exceeded, 2, "rank 2 did not join"});
  all.push_back(Gather{7, "shards", bytes("blob")});
  all.push_back(Gathered{8, {bytes("a"), {}, bytes("ccc")}});
  all.push_back(Heartbeat{});
  all.push_back(Phase{"train"});
  all.push_back(Suspect{1, "closed"});
  all.push_back(Failure{"loss is nan"});
  all.push_back(VerdictMessage{true, 3, "train", "loss is nan"});
  all.push_back(StopRequest{});
  all.push_back(StopReply{12});
  all.push_back(StopAt{13});
  all.push_back(Ship{bytes("records")});
  all.push_back(Bye{99});
  all.push_back(ByeAll{});
  all.push_back(Aside{});
  all.push_back(Run{"20260301T120000Z-allreduce-3f9a2c"});
  return all;
}

TEST(Messages, EachComesBackFromItsBytes) {
  const auto all = one_of_each();
  ASSERT_EQ(all.size(), std::variant_size_v<Message>);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto frame = encode(all[i]);
    EXPECT_EQ(std::to_integer<std::size_t>(frame[0]), i);
    const auto back = decode(frame);
    ASSERT_TRUE(back) << i << ": " << back.error().message;
    EXPECT_EQ(back->index(), i);
    EXPECT_EQ(encode(*back), frame) << i;
  }
}

TEST(Messages, FieldsKeepTheirValues) {
  const auto hello = decode(encode(Hello{"0.1.0", "secret", "seed=7\n", 3, 4, "node1"}));
  ASSERT_TRUE(hello);
  const auto& said = std::get<Hello>(*hello);
  EXPECT_EQ(said.version, "0.1.0");
  EXPECT_EQ(said.token, "secret");
  EXPECT_EQ(said.configuration, "seed=7\n");
  EXPECT_EQ(said.rank, 3);
  EXPECT_EQ(said.world_size, 4);
  EXPECT_EQ(said.host, "node1");
  const auto gathered = decode(encode(Gathered{8, {bytes("a"), {}, bytes("ccc")}}));
  ASSERT_TRUE(gathered);
  EXPECT_EQ(std::get<Gathered>(*gathered).blobs[2], bytes("ccc"));
}

TEST(Messages, CutShortOrTooLongIsRefused) {
  for (const Message& message : one_of_each()) {
    auto frame = encode(message);
    for (std::size_t size = 0; size < frame.size(); ++size) {
      const auto cut = decode(std::span(frame).first(size));
      ASSERT_FALSE(cut) << message.index() << " cut to " << size;
      EXPECT_EQ(cut.error().kind, base::ErrorKind::corrupt_data);
    }
    frame.push_back(std::byte{0});
    EXPECT_FALSE(decode(frame)) << message.index();
  }
}

TEST(Messages, UnknownTagsAndMagicsAreRefused) {
  const auto unknown = decode(std::vector<std::byte>{std::byte{200}});
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, ::testing::HasSubstr("unknown tag: 200"));
  auto hello = encode(Hello{});
  hello[1] = std::byte{'X'};
  EXPECT_FALSE(decode(hello));
}

TEST(Messages, ClaimedCountsDoNotAllocate) {
  // An all-gather of 2^20 blobs in 13 bytes.
  std::vector<std::byte> frame = encode(Gathered{0, {}});
  frame[frame.size() - 2] = std::byte{0x10};
  EXPECT_FALSE(decode(frame));
}

TEST(Messages, AnyBytesAreAnsweredWithAValueOrAnError) {
  base::Random random(5);
  const auto all = one_of_each();
  int good = 0;
  for (int i = 0; i < 20'000; ++i) {
    auto frame = encode(all[random.below(all.size())]);
    for (std::uint64_t flips = random.below(4); flips > 0; --flips) {
      frame[random.below(frame.size())] = static_cast<std::byte>(random.below(256));
    }
    const auto message = decode(frame);
    if (!message) continue;
    ++good;
    EXPECT_EQ(encode(*message), frame);
  }
  EXPECT_GT(good, 1000);
}

}  // namespace
}  // namespace dlobd::cluster
