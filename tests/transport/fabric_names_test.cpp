// The choice of a provider, and what travels, without opening anything.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "transport/fabric/gid.h"
#include "transport/fabric/providers.h"
#include "transport/fabric/wire.h"

namespace dlobd::transport::fabric {
namespace {

using testing::HasSubstr;

const std::vector<Provider> kSoftwareOnly = {
    {"shm", "shm", "shm", true},
    {"tcp;ofi_rxm", "eth0", "10.0.0.0/24", true},
    {"sockets", "eth0", "10.0.0.0/24", true},
};

std::vector<Provider> with(std::vector<Provider> more) {
  std::vector<Provider> all = kSoftwareOnly;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(Choice, RealRdmaIsTakenByItself) {
  auto chosen = choose(
      "", with({{"psm3", "irdma0", "psm3", false}, {"verbs;ofi_rxm", "mlx5_0", "IB", false}}));
  ASSERT_TRUE(chosen);
  EXPECT_EQ(*chosen, "verbs;ofi_rxm");
  EXPECT_EQ(*choose("psm3", with({{"psm3", "irdma0", "psm3", false}})), "psm3");
}

TEST(Choice, WithoutRdmaItSaysWhatIsThereAndHowToAllowAStandIn) {
  for (const auto& there :
       {kSoftwareOnly, with({{"verbs;ofi_rxm", "rxe0", "10.0.0.0/24", true}})}) {
    auto chosen = choose("", there);
    ASSERT_FALSE(chosen);
    EXPECT_EQ(chosen.error().kind, base::ErrorKind::unavailable);
    EXPECT_THAT(chosen.error().message, HasSubstr("--provider shm"));
    EXPECT_THAT(chosen.error().message, HasSubstr("real RDMA: none"));
    EXPECT_THAT(chosen.error().message, HasSubstr("shm, tcp;ofi_rxm on eth0"));
    EXPECT_THAT(chosen.error().message, testing::Not(HasSubstr("sockets")));
  }
}

TEST(Choice, StandInsAreTakenByName) {
  EXPECT_EQ(*choose("shm", kSoftwareOnly), "shm");
  EXPECT_EQ(*choose("tcp;ofi_rxm", kSoftwareOnly), "tcp;ofi_rxm");
  EXPECT_EQ(*choose("verbs", with({{"verbs;ofi_rxm", "rxe0", "", true}})), "verbs;ofi_rxm");
  EXPECT_TRUE(is_software("shm"));
  EXPECT_TRUE(is_software("tcp;ofi_rxm"));
  EXPECT_FALSE(is_software("verbs"));
  EXPECT_EQ(label("shm"), "rdma(shm)");
  EXPECT_EQ(label("verbs"), "rdma(verbs;ofi_rxm)");
}

TEST(Choice, RefusedOnesSayWhy) {
  for (const char* name : {"sockets", "udp", "udp;ofi_rxd", "verbs;ofi_rxd", "tcp", "net"}) {
    auto chosen = choose(name, kSoftwareOnly);
    ASSERT_FALSE(chosen) << name;
    EXPECT_EQ(chosen.error().kind, base::ErrorKind::invalid_argument);
    EXPECT_THAT(chosen.error().message, HasSubstr(std::string("is refused: ") + name + ": "));
  }
  EXPECT_THAT(choose("sockets", kSoftwareOnly).error().message, HasSubstr("hang"));
}

TEST(Choice, UnknownAndAbsentOnesAreErrors) {
  auto unknown = choose("infiniband", kSoftwareOnly);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind, base::ErrorKind::invalid_argument);
  EXPECT_THAT(unknown.error().message, HasSubstr("verbs;ofi_rxm"));
  auto absent = choose("efa", kSoftwareOnly);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().kind, base::ErrorKind::unavailable);
  EXPECT_THAT(absent.error().message, HasSubstr("asked for: efa: "));
}

Header some_header() {
  Header header;
  header.type = PacketType::envelope;
  header.traffic = Traffic::apart;
  header.notification = {9, 0xfedcba98U};
  header.source = 4095;
  header.credits = 65535;
  header.sequence = 0xffffffffU;
  header.parts = 70'000;
  header.key = 0x0123456789abcdefULL;
  header.bytes = std::uint64_t{1} << 40;
  header.sender_ready = base::Time(123'456'789'012'345);
  return header;
}

std::vector<std::byte> packet(const Header& header, std::size_t payload) {
  std::vector<std::byte> bytes(kHeaderBytes + payload);
  encode(header, std::span(bytes).first<kHeaderBytes>());
  return bytes;
}

TEST(Packets, ComeBackAsTheyWere) {
  const Header sent = some_header();
  auto header = parse_header(packet(sent, 0));
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->type, sent.type);
  EXPECT_EQ(header->traffic, sent.traffic);
  EXPECT_EQ(header->notification.kind, sent.notification.kind);
  EXPECT_EQ(header->notification.index, sent.notification.index);
  EXPECT_EQ(header->source, sent.source);
  EXPECT_EQ(header->credits, sent.credits);
  EXPECT_EQ(header->sequence, sent.sequence);
  EXPECT_EQ(header->parts, sent.parts);
  EXPECT_EQ(header->key, sent.key);
  EXPECT_EQ(header->bytes, sent.bytes);
  EXPECT_EQ(header->sender_ready, sent.sender_ready);
}

TEST(Packets, ThatNoHonestPeerSendsAreErrors) {
  EXPECT_FALSE(parse_header({}));
  EXPECT_FALSE(parse_header(std::vector<std::byte>(kHeaderBytes)));
  EXPECT_FALSE(parse_header(packet(some_header(), 1)));
  Header header = some_header();
  header.parts = 0;
  EXPECT_FALSE(parse_header(packet(header, 0)));
  header.type = PacketType::message;
  header.bytes = kMaxMessageBytes;
  header.parts = packets_of(kMaxMessageBytes);
  header.part = header.parts - 1;
  EXPECT_TRUE(parse_header(packet(header, kMaxMessageBytes % kPacketPayload)));
  EXPECT_FALSE(parse_header(packet(header, kMaxMessageBytes % kPacketPayload - 1)));
  header.part = header.parts;
  EXPECT_FALSE(parse_header(packet(header, 0)));
  header.bytes = kMaxMessageBytes + 1;
  header.part = 0;
  EXPECT_FALSE(parse_header(packet(header, kPacketPayload)));
  auto bytes = packet(some_header(), 0);
  bytes[0] = std::byte{99};
  EXPECT_FALSE(parse_header(bytes));
}

TEST(Packets, MarksFitEightBytesAndFour) {
  Mark mark;
  mark.source = 4095;
  mark.sequence = 0xfffffffeU;
  mark.notification = {15, 0x89abcdefU};
  const std::uint64_t narrow = encode(mark, MarkWidth::narrow);
  EXPECT_LE(narrow, 0xffffffffULL);
  for (const MarkWidth width : {MarkWidth::narrow, MarkWidth::wide}) {
    const Mark back = decode_mark(encode(mark, width), width);
    EXPECT_EQ(back.source, 4095);
    EXPECT_EQ(ahead(back, 0xfffffffeU, width), 0U);
    EXPECT_EQ(ahead(back, 0xfffffff0U, width), 14U);
    EXPECT_GT(ahead(back, 0, width), 1U << 14);  // long past
  }
  const Mark wide = decode_mark(encode(mark, MarkWidth::wide), MarkWidth::wide);
  EXPECT_EQ(wide.notification.kind, 15);
  EXPECT_EQ(wide.notification.index, 0x89abcdefU);
  mark.sequence = 3;  // wrapped
  EXPECT_EQ(ahead(decode_mark(encode(mark, MarkWidth::wide), MarkWidth::wide), 0xffffffffU,
                  MarkWidth::wide),
            4U);
}

TEST(Packets, HellosAndDescriptionsComeBackAndAreReadWithoutTrust) {
  Hello hello;
  hello.answer = Answer::welcome;
  hello.peer = 7;
  hello.world_size = 9;
  hello.key = 0xfeedULL << 40;
  hello.token = std::string(kMaxTokenBytes, 't');
  const auto greeting = encode(hello);
  EXPECT_EQ(*parse_hello(greeting), hello);
  Description description;
  description.provider = "tcp;ofi_rxm";
  description.address = std::string("\0\1\2", 3);
  description.credits = 64;
  description.mark_width = MarkWidth::wide;
  description.regions[3] = {1 << 20, 0x7f0000000000ULL, 42};
  const auto blob = encode(description);
  EXPECT_EQ(*parse_description(blob), description);
  for (std::size_t size = 0; size < blob.size(); ++size) {
    EXPECT_FALSE(parse_description(std::span(blob).first(size))) << size;
  }
  for (std::size_t size = 0; size < greeting.size(); ++size) {
    EXPECT_FALSE(parse_hello(std::span(greeting).first(size))) << size;
  }
  auto more = blob;
  more.push_back(std::byte{0});
  EXPECT_FALSE(parse_description(more));
  description.credits = 0;
  EXPECT_FALSE(parse_description(encode(description)));
}

TEST(Gid, NamesTheAddressThatItMaps) {
  EXPECT_EQ(mapped_address("0000:0000:0000:0000:0000:ffff:0a4d:0001"), "10.77.0.1");
  EXPECT_EQ(mapped_address("fe80:0000:0000:0000:0202:c9ff:fe12:3456"), "");
  EXPECT_EQ(mapped_address("nonsense"), "");
}

TEST(Gid, IsReadFromTheDevicesTable) {
  const auto root = std::filesystem::path(testing::TempDir()) / "gids_of_a_device";
  const auto folder = root / "sys/class/infiniband/rxe0/ports/1/gids";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "0") << "fe80:0000:0000:0000:0202:c9ff:fe12:3456\n";
  std::ofstream(folder / "1") << "0000:0000:0000:0000:0000:ffff:0a4d:0001\n";
  EXPECT_EQ(*address_of_gid("rxe0", 1, 1, root.string()), "10.77.0.1");
  EXPECT_EQ(address_of_gid("rxe0", 1, 0, root.string()).error().kind,
            base::ErrorKind::invalid_argument);
  EXPECT_EQ(address_of_gid("rxe0", 1, 2, root.string()).error().kind, base::ErrorKind::not_found);
  EXPECT_EQ(address_of_gid("", 1, 1, root.string()).error().kind,
            base::ErrorKind::invalid_argument);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace dlobd::transport::fabric
