#include "compute/arena.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <new>
#include <utility>

namespace dlobd::compute {
namespace {

std::vector<ParameterSpec> two() {
  return {{"a.weight", {3, 5}, 1, 1}, {"a.bias", {3}, 2, 0}};
}

TEST(ParameterArena, LaysViewsOneAfterAnother) {
  const ParameterArena arena(two(), 7);
  EXPECT_EQ(arena.size(), 18U);
  ASSERT_EQ(arena.views().size(), 2U);
  EXPECT_EQ(arena.views()[1].name, "a.bias");
  EXPECT_EQ(arena.views()[1].range(), (Range{15, 18}));
  EXPECT_EQ(arena.views()[1].lr_multiplier, 2);
  EXPECT_EQ(arena.views()[1].decay_multiplier, 0);
  EXPECT_EQ(arena.state().size(), 7U);
}

TEST(ParameterArena, RegionsArePageAlignedZeroAndApart) {
  const ParameterArena arena(two(), 7);
  for (const auto region : {arena.parameters(), arena.gradients(), arena.state()}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(region.data()) % 4096, 0U);
    for (const float value : region) EXPECT_EQ(value, 0.0F);
  }
  arena.parameters()[17] = 1;
  arena.gradients()[0] = 2;
  arena.state()[0] = 3;
  EXPECT_EQ(arena.parameters()[17], 1);
  EXPECT_EQ(arena.gradients()[0], 2);
  EXPECT_EQ(arena.state()[0], 3);
}

TEST(ParameterArena, DoesNotMoveWhenItsOwnerDoes) {
  ParameterArena arena(two());
  const float* const parameters = arena.parameters().data();
  arena.gradients()[2] = 4;
  ParameterArena moved(std::move(arena));
  EXPECT_EQ(moved.parameters().data(), parameters);
  ParameterArena other({{"b", {1}, 1, 1}});
  other = std::move(moved);
  EXPECT_EQ(other.parameters().data(), parameters);
  EXPECT_EQ(other.size(), 18U);
  EXPECT_EQ(other.gradients()[2], 4);
}

TEST(ParameterArena, AnEmptyOneHasNothing) {
  const ParameterArena arena(std::vector<ParameterSpec>{});
  EXPECT_EQ(arena.size(), 0U);
  EXPECT_TRUE(arena.parameters().empty());
}

TEST(ParameterArena, APhantomHasAddressesWithoutMemory) {
  // 2 x 64 GiB, more than most hosts have.
  const ParameterArena arena({{"huge", {1 << 17, 1 << 17}, 1, 1}}, 0, Backing::phantom);
  EXPECT_EQ(arena.size(), std::size_t{1} << 34);
  EXPECT_NE(arena.parameters().data(), nullptr);
  EXPECT_EQ(arena.gradients().data() - arena.parameters().data(), std::ptrdiff_t{1} << 34);
}

TEST(ParameterArena, MemoryThatTheSystemLacksIsSaidSo) {
  // 2 x 2^58 bytes: more than any address space of today.
  const std::vector<ParameterSpec> specs = {{"huge", {1 << 28, 1 << 28}, 1, 1}};
  try {
    const ParameterArena arena(specs);
    FAIL() << "there was such memory";
  } catch (const std::bad_alloc& thrown) {
    EXPECT_STREQ(thrown.what(),
                 "no memory for parameters and gradients: 576460752303423488 bytes: Cannot "
                 "allocate memory");
  }
}

TEST(ParameterArenaDeathTest, APhantomCannotBeRead) {
  const ParameterArena arena({{"a", {4}, 1, 1}}, 0, Backing::phantom);
  EXPECT_DEATH(
      {
        const volatile float* value = arena.parameters().data();
        const float read = *value;
        static_cast<void>(read);
      },
      "");
}

}  // namespace
}  // namespace dlobd::compute
