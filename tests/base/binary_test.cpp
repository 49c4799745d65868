// Values come back as they were written, and a reader never gives what is not there.
#include "base/binary.h"

#include <gtest/gtest.h>

#include <limits>

namespace dlobd::base {
namespace {

std::vector<std::byte> example() {
  BinaryWriter writer;
  writer.integer(std::uint8_t{0xfe});
  writer.integer(std::int32_t{-2});
  writer.integer(std::numeric_limits<std::uint64_t>::max() - 1);
  writer.real(-0.5);
  writer.text<std::uint16_t>("words");
  writer.bytes<std::uint64_t>({});
  return writer.take();
}

TEST(Binary, ValuesComeBackAsTheyWere) {
  const auto bytes = example();
  BinaryReader reader(bytes);
  EXPECT_EQ(reader.integer<std::uint8_t>(), 0xfe);
  EXPECT_EQ(reader.integer<std::int32_t>(), -2);
  EXPECT_EQ(reader.integer<std::uint64_t>(), std::numeric_limits<std::uint64_t>::max() - 1);
  EXPECT_EQ(reader.real(), -0.5);
  EXPECT_EQ(reader.text<std::uint16_t>(), "words");
  EXPECT_TRUE(reader.bytes<std::uint64_t>().empty());
  EXPECT_TRUE(reader.good());
  EXPECT_EQ(reader.left(), 0U);
}

TEST(Binary, TheLeastSignificantByteComesFirst) {
  BinaryWriter writer;
  writer.integer(std::uint32_t{0x04030201});
  const auto bytes = writer.take();
  ASSERT_EQ(bytes.size(), 4U);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(std::to_integer<int>(bytes[static_cast<std::size_t>(i)]), i + 1);
}

TEST(Binary, WhatIsCutIsNotGoodAndGivesZerosFromThereOn) {
  const auto whole = example();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto cut = std::span(whole).first(size);
    BinaryReader reader(cut);
    (void)reader.integer<std::uint8_t>();
    (void)reader.integer<std::int32_t>();
    (void)reader.integer<std::uint64_t>();
    (void)reader.real();
    (void)reader.text<std::uint16_t>();
    (void)reader.bytes<std::uint64_t>();
    EXPECT_FALSE(reader.good()) << size;
    EXPECT_EQ(reader.left(), 0U) << size;
    EXPECT_EQ(reader.integer<std::uint8_t>(), 0) << size;
  }
}

TEST(Binary, ALengthBeyondTheEndAllocatesNothing) {
  BinaryWriter writer;
  writer.integer(std::numeric_limits<std::uint64_t>::max());
  const auto bytes = writer.take();
  BinaryReader blob(bytes);
  EXPECT_TRUE(blob.bytes<std::uint64_t>().empty());
  EXPECT_FALSE(blob.good());
  BinaryReader text(bytes);
  EXPECT_EQ(text.text<std::uint64_t>(), "");
  EXPECT_FALSE(text.good());
}

TEST(Binary, AfterARefusalNothingIsGiven) {
  const auto bytes = example();
  BinaryReader reader(bytes);
  reader.refuse();
  EXPECT_EQ(reader.integer<std::uint8_t>(), 0);
  EXPECT_FALSE(reader.good());
}

}  // namespace
}  // namespace dlobd::base
