// The page that `dlobd describe` prints, at most 100 columns wide, and what its sections share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compute/arena.h"

namespace dlobd::stacks {

inline constexpr int kMostRows = 16;  // of a table; the rest is counted

using Views = std::vector<compute::ParameterView>;

class Page {
 public:
  void heading(std::string_view text);
  void line(std::string_view text);
  // Words, broken at the page's width; the lines after the first start below the text of the first.
  void paragraph(std::string_view first, std::string_view words);
  // "... and 24 more", where a table of `rows` was cut short.
  void more_rows(std::size_t rows);
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string grouped(std::uint64_t number);   // 431,080
std::string size_text(std::uint64_t bytes);  // 1.64 MiB (1,724,320 bytes); 48 bytes
std::string counted(std::uint64_t number, std::string_view what);  // 1 message; 1,200 messages
std::size_t elements_of(const Views& views);                       // P
// The parameters of which `range` holds a part: "conv1.weight .. fc1.weight".
std::string names_in(const Views& views, compute::Range range);

struct Owned {
  std::string who;  // "0", "ps 1"
  compute::Range range;
};
// The section "Who owns what" for a design in which each rank owns one contiguous range.
void ranges_section(Page& page, const Views& views, const std::vector<Owned>& owned);

}  // namespace dlobd::stacks
