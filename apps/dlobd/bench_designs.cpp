#include "bench_designs.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/nearest.h"

namespace dlobd::app {

using base::ErrorKind;
using base::fail;
using base::Result;

namespace {

// Those of `valid` that are wanted, in the order in which they were asked for.
Result<std::vector<std::string>> wanted(const char* option, const char* what,
                                        const std::vector<std::string>& words,
                                        const std::vector<std::string>& valid) {
  if (words == std::vector<std::string>{"all"}) return valid;
  std::vector<std::string> all{"all"};
  all.insert(all.end(), valid.begin(), valid.end());
  for (const auto& word : words) {
    if (std::find(valid.begin(), valid.end(), word) != valid.end()) continue;
    return fail(ErrorKind::invalid_argument, fmt::format("no such {}: --{} {}; {}", what, option,
                                                         word, base::suggestion(word, all)));
  }
  return words;
}

std::string name_of(const BenchStack& stack) {
  return stack.name;
}
std::string name_of(const BenchNetwork& network) {
  return network.name();
}
template <class Named>
const Named& named(const std::vector<Named>& all, const std::string& name) {
  return *std::find_if(all.begin(), all.end(),
                       [&name](const Named& one) { return name_of(one) == name; });
}
template <class Named>
std::vector<std::string> names_of(const std::vector<Named>& all) {
  std::vector<std::string> names;
  for (const auto& one : all) names.push_back(name_of(one));
  return names;
}

BenchDesign design_of(const BenchStack& stack, const std::string& behaviour,
                      const BenchNetwork& network) {
  BenchDesign design;
  design.name = design.title = stack.name;
  design.words = {"--stack", stack.name};
  if (!behaviour.empty()) {
    design.name += "_" + behaviour;
    design.title += " " + behaviour;
    design.words.insert(design.words.end(), {"--behaviour", behaviour});
  }
  if (network.is_tcp()) return design;
  design.name += "_" + network.name();
  design.title += ", " + network.title();
  if (stack.lacks_rdma) design.title += ", hypothetical";
  design.words.insert(design.words.end(), {"--network", "rdma", "--provider", network.provider});
  if (!network.device.empty())
    design.words.insert(design.words.end(), {"--device", network.device});
  return design;
}

}  // namespace

Result<std::vector<BenchDesign>> designs_of(const DesignChoices& choices,
                                            const std::vector<BenchStack>& stacks,
                                            const std::vector<BenchNetwork>& networks) {
  DLOBD_TRY(stack_names, wanted("stacks", "stack", choices.stacks, names_of(stacks)));
  DLOBD_TRY(network_names,
            wanted("networks", "network here", choices.networks, names_of(networks)));
  const std::vector<std::string> all_behaviours{"faithful", "fixed", "improved"};
  DLOBD_TRY(behaviours, wanted("behaviours", "behaviour", choices.behaviours, all_behaviours));
  std::vector<BenchDesign> designs;
  for (const auto& stack_name : stack_names) {
    const BenchStack& stack = named(stacks, stack_name);
    auto has = stack.behaviours;
    std::erase_if(has, [&behaviours](const std::string& one) {
      return std::find(behaviours.begin(), behaviours.end(), one) == behaviours.end();
    });
    if (stack.behaviours.empty()) has.emplace_back();
    for (const auto& network : network_names) {
      for (const auto& behaviour : has)
        designs.push_back(design_of(stack, behaviour, named(networks, network)));
    }
  }
  if (designs.empty()) {
    return fail(ErrorKind::invalid_argument,
                fmt::format("no stack has such a behaviour: --stacks {} --behaviours {}",
                            fmt::join(choices.stacks, ","), fmt::join(choices.behaviours, ",")));
  }
  return designs;
}

}  // namespace dlobd::app
