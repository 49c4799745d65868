#include "describe.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "complaint.h"
#include "compute/arena.h"
#include "compute/model.h"
#include "compute/processor.h"
#include "design_text.h"
#include "exit_status.h"
#include "missing_values.h"
#include "stacks/design.h"

namespace dlobd::app {

namespace {

struct Options {
  DesignWords design;
  std::string network = "tcp";
  std::string model = "lenet";
  std::string processor = "cpu";
  int ranks = 2;
  bool json = false;
};

struct Subject {
  stacks::Design design;
  compute::Model model;
  std::vector<compute::ParameterView> views;
  std::optional<std::string> hypothetical;
};

nlohmann::json json_of(const transport::Count& sent, const transport::Count& received) {
  return {{"messages_sent", sent.messages},
          {"bytes_sent", sent.bytes},
          {"messages_received", received.messages},
          {"bytes_received", received.bytes}};
}

// Names as in a run's record.
std::string json_text(const Options& options, const Subject& subject) {
  const stacks::Design& design = subject.design;
  const exchange::Layout layout = design.layout(options.ranks);
  nlohmann::json defects = nlohmann::json::object();
  for (const auto& defect : design.defects) {
    defects[defect.name] = {{"behaviour", stacks::name(defect.behaviour)},
                            {"explanation", defect.explanation}};
  }
  nlohmann::json ranks = nlohmann::json::array();
  for (int rank = 0; rank < layout.world_size(); ++rank) {
    const auto traffic = stacks::step_traffic(design, subject.views, layout, rank);
    ranks.push_back({{"rank", rank},
                     {"role", design.role(layout, rank)},
                     {"data", json_of(traffic.data_sent, traffic.data_received)},
                     {"control", json_of(traffic.control_sent, traffic.control_received)}});
  }
  std::size_t parameters = 0;
  for (const auto& view : subject.views) parameters += view.size;
  const auto nullable = [](const auto& value) {
    return value ? nlohmann::json(*value) : nlohmann::json();
  };
  std::optional<std::string_view> behaviour;
  if (design.behaviour) behaviour = stacks::name(*design.behaviour);
  const nlohmann::json all = {{"stack", design.stack},
                              {"exchange", design.exchange},
                              {"behaviour", nullable(behaviour)},
                              {"defects", std::move(defects)},
                              {"network", options.network},
                              {"processor", options.processor},
                              {"hypothetical", nullable(subject.hypothetical)},
                              {"wire_element", compute::name(design.wire_element)},
                              {"batch_rule", batches::name(design.batch_rule)},
                              {"model", subject.model.name},
                              {"parameters", parameters},
                              {"ranks", options.ranks},
                              {"per_step", std::move(ranks)}};
  return all.dump(2) + "\n";
}

base::Result<std::string> text(const Options& options) {
  DLOBD_TRY(design, parse_design(options.design, options.network == "rdma"));
  if (options.ranks < 1 || options.ranks > 65536) {
    return base::fail(base::ErrorKind::invalid_argument,
                      fmt::format("must be from 1 to 65536: --ranks {}", options.ranks));
  }
  // Models are described at the shape of MNIST.
  records::Shape shape;
  shape.height = 28;
  shape.width = 28;
  DLOBD_TRY(model, compute::find_model(options.model, shape, 10));
  DLOBD_TRY(processor, compute::Processor::parse(options.processor));
  const compute::ParameterArena arena(model.parameters, 0, compute::Backing::phantom);
  const bool rdma = options.network == "rdma";
  const Subject subject{design, model, arena.views(),
                        stacks::hypothetical(design, rdma, processor)};
  if (options.json) return json_text(options, subject);
  return stacks::describe(design, model.name, subject.views, options.ranks, subject.hypothetical);
}

}  // namespace

void add_describe(CLI::App& app, int& status) {
  auto options = std::make_shared<Options>();
  auto* verb = app.add_subcommand("describe",
                                  "A design in a page: owners, rounds, messages, bytes, defects");
  add_design_options(*verb, options->design);
  verb->add_option("--network", options->network,
                   "tcp; rdma: one-sided writes; simulated, which counts as tcp does")
      ->type_name("NAME")
      ->check(CLI::IsMember({"tcp", "rdma", "simulated"}))
      ->capture_default_str();
  verb->add_option("--processor", options->processor, "As for train; says what is hypothetical")
      ->type_name("NAME")
      ->capture_default_str();
  verb->add_option("--model", options->model, "lenet, softmax")
      ->type_name("NAME")
      ->capture_default_str();
  verb->add_option("--ranks", options->ranks, "Workers")->capture_default_str();
  verb->add_flag("--json", options->json, "The figures instead of the page");
  refuse_missing_values(*verb);
  verb->footer("Example:\n  dlobd describe --stack caffeonspark --model lenet --ranks 4");
  verb->callback([options, &status] {
    const auto said = text(*options);
    if (!said) {
      complain("dlobd describe", said.error().message);
      status = kRefused;
      return;
    }
    show(stdout, *said);
  });
}

}  // namespace dlobd::app
