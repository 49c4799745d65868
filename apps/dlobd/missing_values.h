// An option that is given an empty value, or the next option in place of one, is refused: behind
// `--resume $CHECKPOINT` stands a variable that is not set, and training from scratch is not what
// its user wanted.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace dlobd::app {

// Call once all options of the verb are declared.
inline void refuse_missing_values(CLI::App& verb) {
  for (CLI::Option* option : verb.get_options()) {
    if (option->get_items_expected_max() == 0) continue;  // a flag
    option->check([](const std::string& value) {
      if (value.empty()) {
        return std::string("is given an empty value: leave it out, or say which");
      }
      if (value.starts_with("--")) return "is given no value, but another option: " + value;
      return std::string();
    });
  }
}

}  // namespace dlobd::app
