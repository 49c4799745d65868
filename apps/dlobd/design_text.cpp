#include "design_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dlobd::app {

void add_design_options(CLI::App& app, DesignWords& words) {
  app.add_option("--stack", words.stack,
                 fmt::format("The design: {}", fmt::join(stacks::stack_names(), ", ")))
      ->required()
      ->type_name("NAME")
      ->group("Design");
  app.add_option("--behaviour", words.behaviour,
                 "faithful to the real stack (default), with its defects fixed, or improved")
      ->type_name("NAME")
      ->group("Design");
  app.add_option("--defect", words.defects, "NAME=faithful|fixed, one defect by itself; repeatable")
      ->take_all()
      ->type_name("NAME=...")
      ->group("Design");
  app.add_option("--wire-element", words.wire_element,
                 "float32, float16, bfloat16 or truncated16: of gradients on their way, with error "
                 "feedback (default: the stack's own; others for caffeonspark, tensorflowonspark "
                 "and allreduce)")
      ->type_name("NAME")
      ->group("Design");
  for (const auto& [name, help] : stacks::option_names()) {
    app.add_option("--" + name, words.options[name], help)->type_name("VALUE")->group("Design");
  }
}

base::Result<stacks::Design> parse_design(const DesignWords& words, bool rdma) {
  stacks::Choices choices;
  choices.behaviour = words.behaviour;
  choices.rdma = rdma;
  choices.wire_element = words.wire_element;
  for (const auto& text : words.defects) {
    const auto equals = text.find('=');
    if (equals == std::string::npos) {
      return base::fail(base::ErrorKind::invalid_argument,
                        fmt::format("--defect takes NAME=faithful or NAME=fixed: {}", text));
    }
    const std::string name = text.substr(0, equals);
    if (!choices.defects.emplace(name, text.substr(equals + 1)).second) {
      return base::fail(base::ErrorKind::invalid_argument,
                        fmt::format("--defect has {} twice: give it once", name));
    }
  }
  for (const auto& [name, value] : words.options) {
    if (!value.empty()) choices.options[name] = value;
  }
  return stacks::make_design(words.stack, choices);
}

}  // namespace dlobd::app
