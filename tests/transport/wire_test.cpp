// The codecs: what is written is read, and nothing else is.
#include "transport/tcp/wire.h"

#include <gtest/gtest.h>

#include "transport/descriptor.h"
#include "transport/tcp/partial.h"

namespace dlobd::transport::tcp {
namespace {

TEST(Wire, HeadersComeBackAsTheyWere) {
  FrameHeader header;
  header.type = FrameType::write;
  header.traffic = Traffic::apart;
  header.notification = {15, 0xdeadbeefU};
  header.region = 65535;
  header.offset_bytes = std::uint64_t{1} << 50;
  header.bytes = (std::uint64_t{1} << 40) + 3;
  header.total_bytes = header.bytes + 5;
  header.sequence = ~std::uint64_t{0};
  header.sender_ready = base::Time(-12345678901234);
  HeaderBytes bytes;
  encode(header, bytes);
  const auto parsed = parse_header(bytes);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_TRUE(*parsed == header);
}

TEST(Wire, HellosComeBackAsTheyWere) {
  Hello hello;
  hello.answer = Answer::duplicate;
  hello.rank = 3;
  hello.peer = 4;
  hello.world_size = 1024;
  hello.connection = 2;
  hello.token = std::string(kMaxTokenBytes, 't');
  const auto parsed = parse_hello(encode(hello));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_TRUE(*parsed == hello);
  HelloBytes bytes = encode(hello);
  bytes[7] = std::byte{kMaxTokenBytes + 1};
  EXPECT_FALSE(parse_hello(bytes));
  bytes = encode(hello);
  bytes[4] = std::byte{9};
  const auto other = parse_hello(bytes);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().message, "a greeting of another version: 9, expected 1");
}

TEST(Wire, DescriptorsComeBackAsTheyWereAndNoneThatIsCut) {
  Descriptor descriptor;
  descriptor.address = "fd00::1";
  descriptor.port = 65535;
  descriptor.regions = {{1, 0}, {7, std::uint64_t{1} << 40}};
  std::vector<std::byte> blob = encode(descriptor);
  const auto decoded = decode_descriptor(blob);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_TRUE(*decoded == descriptor);
  for (std::size_t size = 0; size < blob.size(); ++size) {
    const auto cut = decode_descriptor(std::span(blob).first(size));
    ASSERT_FALSE(cut) << size;
    EXPECT_EQ(cut.error().kind, base::ErrorKind::corrupt_data);
  }
  blob.push_back(std::byte{0});
  EXPECT_FALSE(decode_descriptor(blob));
}

TEST(Wire, ARegionNamedTwiceOrCountedWrongIsRefused) {
  Descriptor descriptor;
  descriptor.regions = {{1, 5}, {2, 5}};
  std::vector<std::byte> blob = encode(descriptor);
  blob[blob.size() - 10] = std::byte{1};  // the second id
  EXPECT_FALSE(decode_descriptor(blob));
  blob = encode(descriptor);
  for (std::size_t i = 0; i < 4; ++i) blob[blob.size() - 24 + i] = std::byte{0xff};  // the count
  EXPECT_FALSE(decode_descriptor(blob));
}

FrameHeader part_of_a_write(std::uint64_t offset, std::uint64_t bytes, std::uint64_t total) {
  FrameHeader header;
  header.type = FrameType::write;
  header.offset_bytes = offset;
  header.bytes = bytes;
  header.total_bytes = total;
  return header;
}

TEST(Partial, IsWholeWhenItsPartsAreThereInWhateverOrder) {
  Partial message;
  EXPECT_FALSE(message.is_whole());
  for (const std::uint64_t offset : {540U, 500U, 520U}) {
    EXPECT_FALSE(message.is_whole());
    EXPECT_TRUE(message.add(part_of_a_write(offset, 20, 60), 3));
  }
  EXPECT_TRUE(message.is_whole());
  EXPECT_FALSE(message.add(part_of_a_write(560, 20, 60), 9));
  Partial empty;
  EXPECT_TRUE(empty.add(part_of_a_write(7, 0, 0), 1));
  EXPECT_TRUE(empty.is_whole());
  EXPECT_FALSE(empty.add(part_of_a_write(7, 0, 0), 9));
}

TEST(Partial, TakesNoPartThatDoesNotBelongToTheOthers) {
  FrameHeader differs = part_of_a_write(40, 20, 100);
  differs.notification.index = 1;
  const std::vector<std::pair<FrameHeader, std::string_view>> cases = {
      {part_of_a_write(20, 20, 100), "parts of a message overlap"},
      {part_of_a_write(39, 5, 100), "parts of a message overlap"},
      {part_of_a_write(15, 30, 100), "parts of a message overlap"},
      {part_of_a_write(40, 0, 100), "a part of a message is empty"},
      {part_of_a_write(101, 20, 100), "parts of a message lie too far apart"},
      {part_of_a_write(40, 20, 101), "parts of a message differ about it"},
      {differs, "parts of a message differ about it"}};
  for (const auto& [part, words] : cases) {
    Partial message;
    ASSERT_TRUE(message.add(part_of_a_write(20, 20, 100), 2));
    const auto added = message.add(part, 2);
    ASSERT_FALSE(added) << words;
    EXPECT_EQ(added.error().kind, base::ErrorKind::corrupt_data);
    EXPECT_TRUE(added.error().message.starts_with(words)) << added.error().message;
    ASSERT_TRUE(message.add(part_of_a_write(40, 20, 100), 2));
    EXPECT_FALSE(message.add(part_of_a_write(60, 20, 100), 2)) << "a third of two";
  }
}

}  // namespace
}  // namespace dlobd::transport::tcp
