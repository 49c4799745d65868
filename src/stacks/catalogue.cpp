#include <fmt/format.h>

#include <array>

#include "base/check.h"
#include "stacks/stack.h"

namespace dlobd::stacks {
namespace {

constexpr auto kAll = std::to_array<const Stack*>(
    {&kCaffeOnSpark, &kTensorFlowOnSpark, &kTensorFlowOnSparkPs, &kBigDl, &kAllReduce});

}  // namespace

std::span<const Stack* const> all_stacks() {
  return kAll;
}

const Stack& stack_named(std::string_view name) {
  for (const Stack* each : kAll) {
    if (each->name == name) return *each;
  }
  CHECK(false, "no such stack: {}", name);
  return *kAll.front();
}

const Stack& stack_of(const Design& design) {
  const Stack& stack = stack_named(design.stack);
  if (design.behaviour != Behaviour::improved) return stack;
  CHECK(stack.improved != nullptr, "{} has no improved design", stack.name);
  return *stack.improved;
}

std::vector<std::string> stack_names() {
  std::vector<std::string> names;
  for (const Stack* each : kAll) names.emplace_back(each->name);
  return names;
}

std::map<std::string, std::string> option_names() {
  std::map<std::string, std::string> names;
  for (const Stack* stack : kAll) {
    for (const Option& each : stack->options) {
      std::string& help = names[std::string(each.name)];
      help += fmt::format("{}{} ({})", help.empty() ? "" : "; ", each.help, stack->name);
    }
  }
  return names;
}

std::unique_ptr<exchange::Exchange> make_exchange(const Design& design, exchange::Context context) {
  return stack_of(design).exchange(design, context);
}

std::unique_ptr<exchange::Service> make_service(const Design& design, exchange::Context context) {
  const Stack& stack = stack_of(design);
  CHECK(stack.service != nullptr, "{} has no servers", stack.name);
  return stack.service(design, context);
}

StepTraffic& StepTraffic::operator+=(const StepTraffic& more) {
  const auto add = [](transport::Count& sum, const transport::Count& each) {
    sum.messages += each.messages;
    sum.bytes += each.bytes;
  };
  add(data_sent, more.data_sent);
  add(data_received, more.data_received);
  add(control_sent, more.control_sent);
  add(control_received, more.control_received);
  return *this;
}

StepTraffic step_traffic(const Design& design, const std::vector<compute::ParameterView>& views,
                         exchange::Layout layout, int rank, bool first) {
  return stack_of(design).traffic(design, views, layout, rank, first);
}

}  // namespace dlobd::stacks
