#include "describe.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "compute/arena.h"
#include "compute/model.h"
#include "design_text.h"
#include "exit_status.h"
#include "stacks/design.h"

namespace dlobd::app {

namespace {

struct Options {
  DesignWords design;
  std::string network = "tcp";
  std::string model = "lenet";
  int ranks = 2;
};

base::Result<std::string> page(const Options& options) {
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
  const compute::ParameterArena arena(model.parameters, 0, compute::Backing::phantom);
  return stacks::describe(design, model.name, arena.views(), options.ranks);
}

}  // namespace

void add_describe(CLI::App& app, int& status) {
  auto options = std::make_shared<Options>();
  auto* verb = app.add_subcommand("describe",
                                  "A design in a page: owners, rounds, messages, bytes, defects");
  add_design_options(*verb, options->design);
  verb->add_option("--network", options->network, "tcp, or rdma: one-sided writes")
      ->check(CLI::IsMember({"tcp", "rdma"}))
      ->capture_default_str();
  verb->add_option("--model", options->model, "lenet, softmax")->capture_default_str();
  verb->add_option("--ranks", options->ranks, "Workers")->capture_default_str();
  verb->footer("Example:\n  dlobd describe --stack caffeonspark --model lenet --ranks 4");
  verb->callback([options, &status] {
    const auto text = page(*options);
    if (!text) {
      fmt::print(stderr, "dlobd describe: {}\n", text.error().message);
      status = kRefused;
      return;
    }
    fmt::print("{}", *text);
  });
}

}  // namespace dlobd::app
