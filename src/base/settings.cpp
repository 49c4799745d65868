#include "base/settings.h"

#include <algorithm>

namespace dlobd::base {
namespace {

std::string_view cut_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line;
}

std::string_view key_of(std::string_view line) {
  return line.substr(0, line.find('='));
}

std::string value_of(std::string_view line, std::string_view key) {
  if (key_of(line) != key || line.size() <= key.size()) return "nothing";
  return std::string(line.substr(key.size() + 1));
}

}  // namespace

std::optional<SettingsDifference> first_difference(std::string_view here, std::string_view there) {
  if (here == there) return std::nullopt;
  std::string_view ours;
  std::string_view theirs;
  while (ours == theirs && !(here.empty() && there.empty())) {
    ours = cut_line(here);
    theirs = cut_line(there);
  }
  const std::string_view key = key_of(ours.empty() ? theirs : ours);
  return SettingsDifference{std::string(key), value_of(ours, key), value_of(theirs, key)};
}

}  // namespace dlobd::base
