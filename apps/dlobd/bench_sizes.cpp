#include "bench_sizes.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <string_view>

namespace dlobd::app {

using base::ErrorKind;
using base::fail;
using base::Result;

Result<std::uint64_t> parse_size(const std::string& text, std::uint64_t unit) {
  static const std::map<std::string_view, std::uint64_t> kUnits{
      {"", 1}, {"B", 1}, {"KiB", 1024}, {"MiB", 1024 * 1024}, {"GiB", 1024 * 1024 * 1024}};
  constexpr std::uint64_t kLargest = std::uint64_t{4} << 30;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto named =
      kUnits.find(std::string_view(end, static_cast<std::size_t>(text.data() + text.size() - end)));
  if (error != std::errc() || named == kUnits.end()) {
    return fail(ErrorKind::invalid_argument,
                fmt::format("not a size such as 64KiB, 100MiB or 1724320: --sizes {}", text));
  }
  if (number == 0 || number > kLargest / named->second || number * named->second % unit != 0) {
    return fail(ErrorKind::invalid_argument,
                unit == 1
                    ? fmt::format("not from 1 byte to 4GiB: --sizes {}", text)
                    : fmt::format("not a multiple of {0} bytes, from {0} to 4GiB: --sizes {1}",
                                  unit, text));
  }
  return number * named->second;
}

Result<std::vector<std::uint64_t>> parse_sizes(const std::vector<std::string>& texts,
                                               std::uint64_t unit) {
  std::vector<std::uint64_t> sizes;
  for (const auto& text : texts) {
    DLOBD_TRY(size, parse_size(text, unit));
    sizes.push_back(size);
  }
  return sizes;
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::uint64_t kKi = 1024;
  if (bytes % (kKi * kKi) == 0) return fmt::format("{} MiB", bytes / kKi / kKi);
  if (bytes % kKi == 0) return fmt::format("{} KiB", bytes / kKi);
  return fmt::format("{} B", bytes);
}

}  // namespace dlobd::app
