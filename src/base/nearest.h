// The candidate that a mistyped word most likely meant: least edit distance (insert, delete,
// replace, swap of neighbours: one each), the first of equals. For messages such as "did you mean
// lenet?"; a word that is like none of them gets the list instead.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace dlobd::base {

std::size_t edit_distance(std::string_view a, std::string_view b);

// Empty when there are no candidates.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

// The nearest one, if at most a third of its letters differ (one always may).
std::optional<std::string> near(std::string_view word, std::span<const std::string> candidates);

// "did you mean lenet?" where one is near, else "there are lenet, softmax".
std::string suggestion(std::string_view word, std::span<const std::string> candidates);

}  // namespace dlobd::base
