// An option that is given an empty value is refused: behind `--resume "$CHECKPOINT"` stands a
// variable that is not set, and training from scratch is not what its user wanted.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace dlobd::app {

// Call once all options of the verb are declared.
inline void refuse_empty_words(CLI::App& verb) {
  for (CLI::Option* option : verb.get_options()) {
    if (option->get_items_expected_max() == 0) continue;  // a flag
    option->check([](const std::string& value) {
      return std::string(value.empty() ? "is given an empty value: leave it out, or say which"
                                       : "");
    });
  }
}

}  // namespace dlobd::app
