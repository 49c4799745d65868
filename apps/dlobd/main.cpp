// dlobd: one binary, a verb for each job. Each verb is one small file: parse, call, print.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <sstream>
#include <vector>

#include "base/nearest.h"
#include "bench.h"
#include "complaint.h"
#include "describe.h"
#include "doctor.h"
#include "exit_status.h"
#include "launch_environment.h"
#include "signals_at_start.h"
#include "train.h"
#include "training/identity.h"

namespace {

// One line, what to do next included, instead of CLI11's paragraphs.
int refuse(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* where = &app;
  while (!where->get_subcommands().empty()) where = where->get_subcommands().front();
  std::string path = where == &app ? "dlobd" : "";
  for (const CLI::App* at = where; at != nullptr && at != &app; at = at->get_parent()) {
    path = at->get_name() + (path.empty() ? "" : " ") + path;
  }
  if (where != &app) path = "dlobd " + path;
  std::string line = error.what();
  // A word that is no verb is told from none at all.
  const bool no_verb = where == &app && !where->remaining(false).empty();
  if (no_verb || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const auto extras = where->remaining(false);
    const std::string word = extras.empty() ? "" : extras.front();
    std::vector<std::string> known;
    for (const auto* sub : where->get_subcommands({})) known.push_back(sub->get_name());
    const std::vector<std::string> verbs = known;
    for (const auto* option : where->get_options()) {
      if (!option->get_lnames().empty() && !option->get_group().empty()) {
        known.push_back("--" + option->get_lnames().front());
      }
    }
    line = "no such option or command: " + word;
    // Verbs are few; options are many, and read better in --help.
    const bool listed = !word.starts_with("-") && !verbs.empty();
    if (dlobd::base::near(word, known)) {
      line += "; " + dlobd::base::suggestion(word, known);
    } else if (listed) {
      line += "; " + dlobd::base::suggestion(word, verbs);
    }
  }
  dlobd::app::complain(path, fmt::format("{}; `{} --help` has examples", line, path));
  return dlobd::app::kRefused;
}

}  // namespace

int main(int argc, char** argv) {
  dlobd::app::own_signals();
  // A file that may not grow and a reader that has gone are errors of the write, told like others.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app(
      "Deep learning over big data: trains through the designs of the DLoBD stacks, and measures "
      "them.",
      "dlobd");
  app.set_version_flag("--version", dlobd::training::version());
  app.require_subcommand(1);
  app.footer(R"(Examples:
  dlobd doctor
  dlobd describe --stack caffeonspark --model lenet --ranks 4
  dlobd train --stack caffeonspark --model lenet --data data/mnist --ranks 2 --local-batch-size 32

`dlobd VERB --help` has more.)");
  int status = 0;
  const auto environment = dlobd::app::environment_of(environ);
  dlobd::app::add_train(app, status, environment);
  dlobd::app::add_describe(app, status);
  dlobd::app::add_doctor(app, status);
  dlobd::app::add_bench(app, status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wanted) {
    std::ostringstream text;  // of --help, --version
    status = app.exit(wanted, text, text);
    dlobd::app::show(stdout, text.str());
  } catch (const CLI::ParseError& error) {
    return refuse(app, error);
  } catch (const std::exception& thrown) {
    dlobd::app::complain("dlobd", thrown.what());
    return dlobd::app::kFailed;
  }
  if (!dlobd::app::output_arrived() && status == 0) status = dlobd::app::kFailed;
  return status;
}
