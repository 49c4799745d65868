#include "stacks/page.h"

#include <fmt/format.h>

#include <iterator>

namespace dlobd::stacks {
namespace {

constexpr std::size_t kColumns = 100;
constexpr double kMiB = 1 << 20;
constexpr std::uint64_t kSmall = 10'000;  // so many bytes read better as they are

}  // namespace

void Page::heading(std::string_view text) {
  fmt::format_to(std::back_inserter(text_), "\n{}\n", text);
}

void Page::line(std::string_view text) {
  fmt::format_to(std::back_inserter(text_), "{}\n", text);
}

void Page::paragraph(std::string_view first, std::string_view words) {
  std::string current(first);
  const std::string indent(first.size(), ' ');
  bool empty = true;
  while (!words.empty()) {
    const std::size_t space = words.find(' ');
    const std::string_view word = words.substr(0, space);
    if (!empty && current.size() + 1 + word.size() > kColumns) {
      line(current);
      current = indent;
      empty = true;
    }
    if (!empty) current += ' ';
    current += word;
    empty = false;
    words = space == std::string_view::npos ? std::string_view() : words.substr(space + 1);
  }
  line(current);
}

void Page::more_rows(std::size_t rows) {
  const std::size_t shown = kMostRows;
  if (rows > shown) line(fmt::format("  ... and {} more", rows - shown));
}

std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string size_text(std::uint64_t bytes) {
  if (bytes < kSmall) return counted(bytes, "byte");
  return fmt::format("{:.2f} MiB ({} bytes)", static_cast<double>(bytes) / kMiB, grouped(bytes));
}

std::string counted(std::uint64_t number, std::string_view what) {
  return fmt::format("{} {}{}", grouped(number), what, number == 1 ? "" : "s");
}

std::size_t elements_of(const Views& views) {
  std::size_t elements = 0;
  for (const compute::ParameterView& view : views) elements += view.size;
  return elements;
}

std::string names_in(const Views& views, compute::Range range) {
  std::string first;
  std::string last;
  for (const compute::ParameterView& view : views) {
    if (view.offset >= range.end || view.offset + view.size <= range.begin) continue;
    if (first.empty()) first = view.name;
    last = view.name;
  }
  if (first.empty()) return "nothing";
  return first == last ? first : fmt::format("{} .. {}", first, last);
}

void ranges_section(Page& page, const Views& views, const std::vector<Owned>& owned) {
  page.heading("Who owns what");
  page.line(fmt::format("  {:>6}  {:>25}  {:>13}  {}", "rank", "elements", "count", "lies in"));
  for (std::size_t i = 0; i < owned.size() && i < static_cast<std::size_t>(kMostRows); ++i) {
    const compute::Range range = owned[i].range;
    page.line(fmt::format("  {:>6}  {:>25}  {:>13}  {}", owned[i].who,
                          fmt::format("{} .. {}", grouped(range.begin), grouped(range.end)),
                          grouped(range.size()), names_in(views, range)));
  }
  page.more_rows(owned.size());
}

}  // namespace dlobd::stacks
