#include "base/nearest.h"

#include <algorithm>
#include <vector>

namespace dlobd::base {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table: two back (for swaps), one back, this one.
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replace, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  std::string best;
  std::size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (best.empty() || distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::optional<std::string> near(std::string_view word, std::span<const std::string> candidates) {
  std::string best = nearest(word, candidates);
  const std::size_t most = std::max<std::size_t>(1, std::max(word.size(), best.size()) / 3);
  if (best.empty() || edit_distance(word, best) > most) return std::nullopt;
  return best;
}

std::string suggestion(std::string_view word, std::span<const std::string> candidates) {
  if (const auto best = near(word, candidates)) return "did you mean " + *best + "?";
  std::string all;
  for (const std::string& candidate : candidates) all += (all.empty() ? "" : ", ") + candidate;
  return "there are " + all;
}

}  // namespace dlobd::base
