#include "bench.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>

#include "base/nearest.h"
#include "bench_options.h"
#include "complaint.h"
#include "exit_status.h"
#include "metrics/environment.h"

namespace dlobd::app {

using base::ErrorKind;
using base::fail;
using base::Result;

void add_rounds_options(CLI::App& verb, BenchOptions& options) {
  verb.add_option("--rounds", options.rounds, "Each arm runs once in each round, in random order")
      ->capture_default_str();
  verb.add_option("--seed", options.seed, "Of the order of the arms")->capture_default_str();
  verb.add_option("--arms", options.arms,
                  "Only these, by name, with a comma between (default: all)")
      ->delimiter(',');
  verb.add_flag("--json", options.json, "Print every sample of every round instead of tables");
}

void add_bench_options(CLI::App& verb, BenchOptions& options) {
  verb.add_option("--ranks", options.ranks, "Processes that take part")->capture_default_str();
  add_rounds_options(verb, options);
  verb.add_flag("--peers", options.peers,
                "Run the peers that scripts/setup-peers installs in the same rounds");
}

Result<void> check_options(const BenchOptions& options) {
  if (options.ranks < 1 || options.ranks > 256) {
    return fail(ErrorKind::invalid_argument,
                fmt::format("must be from 1 to 256: --ranks {}", options.ranks));
  }
  if (options.rounds < 1 || options.rounds > 10'000) {
    return fail(ErrorKind::invalid_argument,
                fmt::format("must be from 1 to 10000: --rounds {}", options.rounds));
  }
  return {};
}

Result<std::vector<Arm>> choose_arms(std::vector<Arm> all, const BenchOptions& options,
                                     const std::string& first) {
  if (options.arms.empty()) return all;
  std::vector<std::string> names;
  for (const auto& arm : all) names.push_back(arm.name);
  for (const auto& wanted : options.arms) {
    if (std::find(names.begin(), names.end(), wanted) == names.end()) {
      return fail(ErrorKind::invalid_argument,
                  fmt::format("no such arm: {}; {}", wanted, base::suggestion(wanted, names)));
    }
  }
  std::erase_if(all, [&](const Arm& arm) {
    return arm.name != first &&
           std::find(options.arms.begin(), options.arms.end(), arm.name) == options.arms.end();
  });
  return all;
}

Result<std::string> find_peers() {
  const std::string path = "bench/peers/run";
  std::error_code error;
  if (std::filesystem::exists(path, error)) return path;
  return fail(
      ErrorKind::not_found,
      fmt::format(
          "--peers is for the repository's root, after scripts/setup-peers: there is no {} here",
          path));
}

std::function<void(const std::string&)> live_line() {
  if (isatty(STDERR_FILENO) == 0) return [](const std::string&) {};
  return [](const std::string& line) { fmt::print(stderr, "\r\033[K{} ...", line); };
}

void end_live_line() {
  if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\033[K");
}

std::string machine_line() {
  const auto found = metrics::read_environment();
  return fmt::format("{}, {} CPUs, {}, {:%Y-%m-%d %H:%M} UTC",
                     found.cpu_model.value_or("unknown CPU"), found.cores.value_or(0),
                     found.os_kernel.value_or("unknown system"), fmt::gmtime(std::time(nullptr)));
}

nlohmann::json machine() {
  return {{"at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
          {"environment", metrics::to_json(metrics::read_environment())}};
}

int complain_of_bench(const char* name, const base::Error& error, bool started) {
  end_live_line();
  complain(fmt::format("dlobd bench {}", name), error.message);
  if (error.kind == ErrorKind::cancelled) return kInterrupted;
  return started ? kFailed : kRefused;
}

int run_and_show(const char* name, const std::vector<Arm>& arms, const BenchOptions& options,
                 const std::function<void(const Campaign&)>& show) {
  const auto campaign =
      run_rounds(arms, static_cast<std::size_t>(options.rounds), options.seed, live_line());
  if (!campaign) return complain_of_bench(name, campaign.error(), true);
  end_live_line();
  show(*campaign);
  return 0;
}

void add_bench(CLI::App& app, int& status) {
  auto* bench =
      app.add_subcommand("bench", "How fast the parts are on this host, against their bounds");
  bench->require_subcommand(1);
  bench->footer(R"(Examples:
  dlobd bench allreduce
  dlobd bench training --ranks 2 --data data/mnist
  dlobd bench transport

Arms run in fresh processes, in random order within each round; figures are medians over the rounds, and
comparisons are made within a round. `dlobd bench allreduce --help` and the others' have more.)");
  add_bench_allreduce(*bench, status);
  add_bench_training(*bench, status);
  add_bench_transport(*bench, status);
}

}  // namespace dlobd::app
