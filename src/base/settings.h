// Settings as text that two parties compare: a line "key=value" for each, in the same order on both
// sides. Whatever the texts hold, two that differ have a first difference. Stateless: any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dlobd::base {

struct SettingsDifference {
  std::string key;
  std::string here;  // "nothing" where a side lacks the key
  std::string there;
};

// None: they are the same.
std::optional<SettingsDifference> first_difference(std::string_view here, std::string_view there);

}  // namespace dlobd::base
