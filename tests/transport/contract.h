// What the files of the contract suite share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/random.h"
#include "group.h"

namespace dlobd::transport {

using Bytes = std::vector<std::byte>;

inline constexpr Kind kKind = 3;
inline constexpr Kind kOtherKind = 7;

inline Bytes pattern(std::size_t size, std::uint64_t seed) {
  base::Random random(seed);
  Bytes bytes(size);
  for (std::size_t at = 0; at < size; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random.next();
    std::memcpy(bytes.data() + at, &word, std::min(sizeof word, size - at));
  }
  return bytes;
}

inline base::Error gone() {
  return {base::ErrorKind::cancelled, "the test ends it"};
}

class Contract : public testing::TestWithParam<Factory> {
 protected:
  std::unique_ptr<Group> group(int world_size, std::size_t region_bytes) {
    auto made = GetParam().make(world_size, Limits());
    made->connect(region_bytes);
    return made;
  }
};

inline std::string factory_name(const testing::TestParamInfo<Factory>& tested) {
  return tested.param.name;
}

}  // namespace dlobd::transport
