#include "base/settings.h"

#include <gtest/gtest.h>

namespace dlobd::base {
namespace {

void expect(std::string_view here, std::string_view there, const SettingsDifference& wanted) {
  const auto found = first_difference(here, there);
  ASSERT_TRUE(found.has_value()) << here << there;
  EXPECT_EQ(found->key, wanted.key);
  EXPECT_EQ(found->here, wanted.here);
  EXPECT_EQ(found->there, wanted.there);
}

TEST(Settings, TheFirstThatDiffersIsNamedWithBothValues) {
  EXPECT_FALSE(first_difference("rate=1\nseed=7\n", "rate=1\nseed=7\n"));
  expect("rate=1\nseed=7\n", "rate=1\nseed=8\n", {"seed", "7", "8"});
  expect("rate=1\nseed=7\n", "rate=a=b\nseed=8\n", {"rate", "1", "a=b"});
  expect("rate=\n", "rate=1\n", {"rate", "", "1"});
}

TEST(Settings, WhatOnlyOneSideHasIsNothingOnTheOther) {
  expect("rate=1\nseed=7\n", "rate=1\n", {"seed", "7", "nothing"});
  expect("", "rate=1\n", {"rate", "nothing", "1"});
  expect("link=x\nseed=7\n", "seed=7\n", {"link", "x", "nothing"});
}

TEST(Settings, AnyTwoTextsThatDifferHaveADifference) {
  for (const char* text : {"", "\n", "\n\n", "=", "=\n", "rate", "rate\n", "rate=1", "\nrate=1"}) {
    EXPECT_FALSE(first_difference(text, text));
    EXPECT_TRUE(first_difference(text, "rate=1\n"));
    EXPECT_TRUE(first_difference("rate=1\n", text));
  }
}

}  // namespace
}  // namespace dlobd::base
