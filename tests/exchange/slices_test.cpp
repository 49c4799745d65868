#include "exchange/slices.h"

#include <gtest/gtest.h>

#include "exchange/collective.h"
#include "exchange/group.h"

namespace dlobd::exchange {
namespace {

TEST(Slices, CoverEverythingOnceAndDifferByAtMostOne) {
  for (const auto cut : {slice, front_loaded_slice}) {
    for (const std::size_t elements :
         {std::size_t{0}, std::size_t{3}, std::size_t{37}, std::size_t{431'080}}) {
      for (int parts = 1; parts <= 8; ++parts) {
        std::size_t next = 0;
        for (int part = 0; part < parts; ++part) {
          const compute::Range range = cut(elements, parts, part);
          EXPECT_EQ(range.begin, next);
          EXPECT_LE(range.size(), elements / static_cast<std::size_t>(parts) + 1);
          EXPECT_GE(range.size(), elements / static_cast<std::size_t>(parts));
          next = range.end;
        }
        EXPECT_EQ(next, elements);
      }
    }
  }
}

TEST(Slices, BigDlsLongerOnesComeFirst) {
  EXPECT_EQ(front_loaded_slice(10, 4, 0), (compute::Range{0, 3}));
  EXPECT_EQ(front_loaded_slice(10, 4, 1), (compute::Range{3, 6}));
  EXPECT_EQ(front_loaded_slice(10, 4, 2), (compute::Range{6, 8}));
  EXPECT_EQ(front_loaded_slice(10, 4, 3), (compute::Range{8, 10}));
  EXPECT_EQ(front_loaded_slice(2, 4, 1), (compute::Range{1, 2}));
  EXPECT_EQ(front_loaded_slice(2, 4, 3).size(), 0U);
}

TEST(Slices, AreCaffeOnSparks) {
  EXPECT_EQ(slice(10, 4, 0), (compute::Range{0, 2}));
  EXPECT_EQ(slice(10, 4, 1), (compute::Range{2, 5}));
  EXPECT_EQ(slice(10, 4, 3), (compute::Range{7, 10}));
  EXPECT_EQ(slice(2, 4, 0).size(), 0U);
}

TEST(Buckets, AreContiguousAndInBackwardOrder) {
  const compute::ParameterArena arena(testing::uneven_parameters(500));
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{100}, std::size_t{1} << 20}) {
    const auto all = buckets(arena.views(), bytes);
    std::size_t end = arena.size();
    std::size_t view = arena.views().size();
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].range.end, end);
      if (i + 1 < all.size()) {
        EXPECT_GE(all[i].range.size() * sizeof(float), bytes);
      }
      for (const std::size_t each : all[i].views) EXPECT_EQ(each, --view);
      end = all[i].range.begin;
    }
    EXPECT_EQ(end, 0U);
    EXPECT_EQ(view, 0U);
  }
}

TEST(Algorithms, SmallRangesDoubleAndLargeOnesGoRound) {
  for (const int world_size : {2, 4, 8, 16}) {
    EXPECT_EQ(chosen({}, world_size, 1024), Algorithm::recursive_doubling) << world_size;
    EXPECT_EQ(chosen({}, world_size, 431'080), Algorithm::ring) << world_size;
  }
  // Extras send everything twice more: the ring pays earlier.
  EXPECT_LT(doubling_limit(3), doubling_limit(2));
  EXPECT_LT(doubling_limit(5), doubling_limit(4));
  for (int world_size = 2; world_size <= 1024; ++world_size) {
    EXPECT_GE(doubling_limit(world_size), 1024U) << world_size;
    EXPECT_LE(doubling_limit(world_size), std::size_t{1} << 20) << world_size;
  }
}

}  // namespace
}  // namespace dlobd::exchange
