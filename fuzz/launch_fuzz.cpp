// Any bytes as Slurm's lists and as an environment of NAME=value lines: an answer or an error, in
// little time and memory whatever the lists stand for.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "../apps/dlobd/launch_environment.h"
#include "../apps/dlobd/slurm_nodes.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto node = dlobd::app::first_node(text)) {
    const bool is_name = std::all_of(node->begin(), node->end(), [](char c) {
      return std::string_view("[],: \n").find(c) == std::string_view::npos;
    });
    if (node->empty() || node->size() > text.size() || !is_name) std::abort();
  }
  if (const auto tasks = dlobd::app::tasks_on_node(text, size); tasks && *tasks < 1) std::abort();

  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\n') {
      lines.emplace_back();
    } else if (c != '\0') {
      lines.back() += c;
    }
  }
  std::vector<const char*> variables;
  for (const auto& line : lines) variables.push_back(line.c_str());
  variables.push_back(nullptr);
  const auto launch = dlobd::app::launch_from(dlobd::app::environment_of(variables.data()));
  if (!launch || !*launch) return 0;
  if ((*launch)->rank < 0 || (*launch)->rank >= (*launch)->world_size) std::abort();
  return 0;
}
