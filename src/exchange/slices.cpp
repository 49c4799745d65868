#include "exchange/slices.h"

#include <algorithm>

#include "base/check.h"

namespace dlobd::exchange {

compute::Range slice(std::size_t elements, int parts, int part) {
  CHECK(0 <= part && part < parts, "part {} of {}", part, parts);
  const auto n = static_cast<std::size_t>(parts);
  const auto r = static_cast<std::size_t>(part);
  return {r * elements / n, (r + 1) * elements / n};
}

compute::Range front_loaded_slice(std::size_t elements, int parts, int part) {
  CHECK(0 <= part && part < parts, "part {} of {}", part, parts);
  const auto n = static_cast<std::size_t>(parts);
  const auto r = static_cast<std::size_t>(part);
  const std::size_t base = elements / n;
  const std::size_t longer = elements % n;
  const std::size_t begin = r * base + std::min(r, longer);
  return {begin, begin + base + (r < longer ? 1 : 0)};
}

std::vector<Bucket> buckets(const std::vector<compute::ParameterView>& views,
                            std::size_t bucket_bytes) {
  std::vector<Bucket> result;
  bool open = false;
  for (std::size_t i = views.size(); i-- > 0;) {
    if (!open) {
      result.emplace_back();
      result.back().range.end = views[i].offset + views[i].size;
      open = true;
    }
    Bucket& bucket = result.back();
    bucket.range.begin = views[i].offset;
    bucket.views.push_back(i);
    if (bucket.range.size() * sizeof(float) >= bucket_bytes) open = false;
  }
  return result;
}

}  // namespace dlobd::exchange
