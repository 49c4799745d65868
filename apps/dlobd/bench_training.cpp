// `dlobd bench training`: LeNet through each design, against lone ranks, bare libtorch and PyTorch.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "bench_designs.h"
#include "bench_network.h"
#include "bench_options.h"
#include "compute/plugin.h"
#include "stacks/stack.h"

namespace dlobd::app {

using base::ErrorKind;
using base::fail;
using base::Result;

namespace {

constexpr const char* kAllReduce = "allreduce";
constexpr const char* kBare = "bare";
constexpr double kMi = 1024 * 1024;

struct TrainingOptions : BenchOptions {
  std::int64_t local_batch_size = 64;
  std::int64_t steps = 300;
  std::string data = "data/mnist";
  DesignChoices designs;
  std::string bare;  // the program bare_libtorch; empty: beside this one
  TrainingOptions() { rounds = 5; }
};

// The figures of a run's record that are compared.
Result<Run> from_record(const std::string& text) {
  const auto record = nlohmann::json::parse(text, nullptr, false);
  if (!record.is_object())
    return fail(ErrorKind::corrupt_data, "a run printed no record: " + text.substr(0, 200));
  Run run;
  try {
    const auto& summary = record.at("summary");
    run.figures["images_per_second"] = summary.at("samples_per_second");
    run.figures["first_step_seconds"] = summary.at("time_to_first_step_seconds");
    double peak = 0;
    for (const auto& rank : record.at("ranks"))
      peak = std::max(peak, rank.at("peak_rss_bytes").get<double>());
    run.figures["peak_rss_bytes"] = peak;
    // What is neither the model's arithmetic nor waiting for the exchange.
    double own = 1;
    for (const char* phase : {"compute", "exchange_exposed", "wait"}) {
      own -= summary.at("phases").at(phase).at("share").get<double>();
    }
    run.figures["own_loop_share"] = own;
    run.figures["update_share"] = summary.at("phases").at("update").at("share");
    run.raw = {{"summary", summary},
               {"environment", record.at("environment")},
               {"warnings", record.at("warnings")}};
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorKind::corrupt_data,
                fmt::format("a run's record lacks what is compared: {}", error.what()));
  }
  return run;
}

// The last line that is JSON, as bare_libtorch and the peers print it.
Result<Run> from_line(const std::string& output) {
  Run run;
  for (std::size_t at = 0; at < output.size();) {
    const auto end = std::min(output.find('\n', at), output.size());
    const auto line = nlohmann::json::parse(output.substr(at, end - at), nullptr, false);
    at = end + 1;
    if (!line.is_object()) continue;
    run.raw = line;
    for (const char* figure : {"images_per_second", "first_step_seconds", "peak_rss_bytes"}) {
      if (line.contains(figure) && line[figure].is_number()) run.figures[figure] = line[figure];
    }
  }
  if (run.figures.empty())
    return fail(ErrorKind::corrupt_data, "a program printed no figures: " + output);
  return run;
}

// Ranks that compute side by side without a word to each other: rates add up, the last is the
// slowest.
Run together(const std::vector<Run>& runs) {
  Run all;
  all.raw["runs"] = nlohmann::json::array();
  for (const auto& run : runs) {
    all.figures["images_per_second"] += run.figures.at("images_per_second");
    for (const char* figure :
         {"first_step_seconds", "peak_rss_bytes", "own_loop_share", "update_share"}) {
      all.figures[figure] = std::max(all.figures[figure], run.figures.at(figure));
    }
    all.raw["runs"].push_back(run.raw);
  }
  return all;
}

struct TrainingBench {
  TrainingOptions options;
  Interrupt interrupt;
  // One BLAS kernel for all who multiply with OpenBLAS: the one that `dlobd` chose for this CPU.
  std::vector<std::string> environment{"OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1",
                                       "MKL_NUM_THREADS=1"};

  [[nodiscard]] Command train(const std::vector<std::string>& design, std::int64_t ranks,
                              std::int64_t steps, const std::string& out) const {
    Command command;
    command.words = {"/proc/self/exe", "train"};
    command.words.insert(command.words.end(), design.begin(), design.end());
    for (const std::string& word :
         {std::string("--ranks"), std::to_string(ranks), std::string("--local-batch-size"),
          std::to_string(options.local_batch_size), std::string("--steps"), std::to_string(steps),
          std::string("--threads"), std::string("1"), std::string("--model"), std::string("lenet"),
          std::string("--data"), options.data, std::string("--json"), std::string("--out"), out}) {
      command.words.push_back(word);
    }
    command.environment = environment;
    return command;
  }

  // `copies` runs of `ranks` ranks each, at once.
  Result<Run> run_train(const std::vector<std::string>& design, std::int64_t ranks,
                        std::int64_t copies, std::int64_t steps) {
    DLOBD_TRY(folder, TempFolder::make());
    std::vector<Command> commands;
    for (std::int64_t i = 0; i < copies; ++i) {
      commands.push_back(train(design, ranks, steps, fmt::format("{}/{}", folder.path(), i)));
    }
    DLOBD_TRY(finished, run_commands(commands, interrupt, kArmLimit));
    std::vector<Run> runs;
    for (const auto& one : finished) {
      DLOBD_TRY(run, from_record(one.output));
      runs.push_back(std::move(run));
    }
    return copies == 1 ? std::move(runs.front()) : together(runs);
  }

  Arm design(const std::string& name, const std::string& title, std::vector<std::string> words) {
    return {name, title, [this, words = std::move(words)] {
              return run_train(words, options.ranks, 1, options.steps);
            }};
  }

  Arm lone(const std::string& name, const std::string& title, std::int64_t copies) {
    return {name, title, [this, copies] {
              return run_train({"--stack", "allreduce"}, 1, copies, options.steps);
            }};
  }

  Arm program(const std::string& name, const std::string& title, std::vector<std::string> words) {
    return {name, title, [this, words = std::move(words)]() -> Result<Run> {
              Command command;
              command.words = words;
              command.environment = environment;
              DLOBD_TRY(finished, run_commands({&command, 1}, interrupt, kArmLimit));
              return from_line(finished[0].output);
            }};
  }

  Result<std::vector<Arm>> arms() {
    const std::string batch = std::to_string(options.local_batch_size);
    const std::string steps = std::to_string(options.steps);
    std::vector<Arm> all;
    // What all are compared to, and its second time, are there whatever the designs.
    all.push_back(design(kAllReduce, "allreduce", {"--stack", "allreduce"}));
    all.push_back(
        design("allreduce_again", "the same, a second time (A/A)", {"--stack", "allreduce"}));
    DLOBD_TRY(networks, networks_here(interrupt));
    DLOBD_TRY(designs, designs_of(options.designs, bench_stacks(), networks));
    for (const auto& one : designs) {
      if (one.name != kAllReduce) all.push_back(design(one.name, one.title, one.words));
    }
    all.push_back(lone("lone", "a lone rank", 1));
    all.push_back(lone("lone_together", fmt::format("{} lone ranks at once, summed", options.ranks),
                       options.ranks));
    const std::string bare =
        options.bare.empty() ? compute::program_folder() + "/bare_libtorch" : options.bare;
    const std::vector<std::string> bare_words{bare,  "--data",  options.data, "--batch-size",
                                              batch, "--steps", steps};
    auto plain = bare_words;
    plain.insert(plain.end(), {"--layout", "default"});
    all.push_back(program(kBare, "bare libtorch, channels_last, fused update", bare_words));
    all.push_back(program("bare_default", "bare libtorch, default layout and optimizer", plain));
    if (options.peers) {
      DLOBD_TRY(peers, find_peers());
      all.push_back(program("ddp", fmt::format("PyTorch DDP, {} ranks", options.ranks),
                            {peers, "ddp", std::to_string(options.ranks), "--data", options.data,
                             "--batch-size", batch, "--steps", steps}));
    }
    DLOBD_TRY(chosen, choose_arms(std::move(all), options, kAllReduce));
    for (const auto& arm : chosen) {
      std::error_code error;
      if (arm.name.rfind(kBare, 0) == 0 && !std::filesystem::exists(bare, error)) {
        return fail(
            ErrorKind::not_found,
            fmt::format("bare libtorch is not built: run `cmake --build --preset release --target "
                        "bare_libtorch`, or choose other --arms: {}",
                        bare));
      }
    }
    return chosen;
  }

  // One short run that is not measured: files come into memory, and it says which BLAS kernel is
  // right.
  Result<void> warm_up() {
    constexpr std::int64_t kSteps = 10;
    DLOBD_TRY(run, run_train({"--stack", "allreduce"}, 1, 1, kSteps));
    const auto& found = run.raw["environment"];
    const bool openblas =
        found["blas"].is_string() && found["blas"].get<std::string>().rfind("openblas", 0) == 0;
    if (openblas && found["blas_kernel"].is_string()) {
      environment.push_back("OPENBLAS_CORETYPE=" + found["blas_kernel"].get<std::string>());
    }
    return {};
  }
};

std::string figure_text(const Campaign& campaign, const std::string& arm, const std::string& figure,
                        double unit, int digits) {
  const auto values = campaign.values(arm, figure);
  return values.empty() ? "" : fmt::format("{:.{}f}", median(values) / unit, digits);
}

void print_table(const TrainingBench& bench, const std::vector<Arm>& arms,
                 const Campaign& campaign) {
  const auto& o = bench.options;
  fmt::print(
      "LeNet on MNIST, {} ranks, batch {} a rank, {} steps, 1 thread a rank, {} rounds, seed "
      "{}\n{}\n\n",
      o.ranks, o.local_batch_size, o.steps, campaign.rounds(), o.seed, machine_line());
  std::vector<std::vector<std::string>> lines{{"", "images/s", "rate to allreduce's, in a round",
                                               "first step s", "peak MiB", "above bare MiB",
                                               "own loop %", "of it update %"}};
  for (const auto& arm : arms) {
    const auto above =
        campaign.pairs(arm.name, kBare, "peak_rss_bytes", [](double a, double b) { return a - b; });
    lines.push_back({arm.title, figure_text(campaign, arm.name, "images_per_second", 1, 0),
                     arm.name == kAllReduce
                         ? "1"
                         : ratio_text(campaign.ratios(arm.name, kAllReduce, "images_per_second")),
                     figure_text(campaign, arm.name, "first_step_seconds", 1, 2),
                     figure_text(campaign, arm.name, "peak_rss_bytes", kMi, 0),
                     above.empty() ? "" : fmt::format("{:.0f}", median(above) / kMi),
                     figure_text(campaign, arm.name, "own_loop_share", 0.01, 2),
                     figure_text(campaign, arm.name, "update_share", 0.01, 2)});
  }
  fmt::print("{}\n", table(lines));
  const auto line = [&](const char* what, const char* arm, const char* other) {
    if (const auto ratios = campaign.ratios(arm, other, "images_per_second"); !ratios.empty()) {
      fmt::print("{}: {}\n", what, ratio_text(ratios));
    }
  };
  line("Scaling: allreduce to lone ranks computing at once", kAllReduce, "lone_together");
  line("A lone rank to bare libtorch", "lone", kBare);
  line("allreduce to PyTorch DDP", kAllReduce, "ddp");
  fmt::print(
      "Medians over the rounds; in brackets the lowest and highest round. Peak memory is the "
      "largest rank's. Own loop: the\n"
      "share of a step that is neither computing the gradient nor waiting for the exchange.\n");
}

void print_json(const TrainingBench& bench, const Campaign& campaign) {
  const auto& o = bench.options;
  auto all = campaign.to_json(kAllReduce);
  all["benchmark"] = "training";
  all["machine"] = machine();
  all["config"] = {{"ranks", o.ranks},
                   {"rounds", o.rounds},
                   {"seed", o.seed},
                   {"local_batch_size", o.local_batch_size},
                   {"steps", o.steps},
                   {"stacks", o.designs.stacks},
                   {"behaviours", o.designs.behaviours},
                   {"networks", o.designs.networks},
                   {"data", o.data},
                   {"environment", bench.environment}};
  fmt::print("{}\n", all.dump());
}

Result<void> check_training(const TrainingOptions& o) {
  DLOBD_TRY_VOID(common, check_options(o));
  constexpr std::int64_t kLeastSteps = 30;  // those that warm up are left out of the rate
  if (o.local_batch_size < 1) {
    return fail(ErrorKind::invalid_argument,
                fmt::format("must be at least 1: --local-batch-size {}", o.local_batch_size));
  }
  if (o.steps < kLeastSteps) {
    return fail(ErrorKind::invalid_argument,
                fmt::format("must be at least {}: --steps {}", kLeastSteps, o.steps));
  }
  std::error_code error;
  if (!std::filesystem::is_directory(o.data, error)) {
    return fail(
        ErrorKind::not_found,
        fmt::format("there is no such folder; scripts/fetch-mnist fetches it: --data {}", o.data));
  }
  return {};
}

int bench_training(const TrainingOptions& options) {
  constexpr const char* kName = "training";
  if (auto good = check_training(options); !good)
    return complain_of_bench(kName, good.error(), false);
  TrainingBench bench;
  bench.options = options;
  auto arms = bench.arms();
  if (!arms) return complain_of_bench(kName, arms.error(), false);
  if (auto warm = bench.warm_up(); !warm) return complain_of_bench(kName, warm.error(), true);
  return run_and_show(kName, *arms, options, [&](const Campaign& campaign) {
    if (options.json) {
      print_json(bench, campaign);
    } else {
      print_table(bench, *arms, campaign);
    }
  });
}

}  // namespace

std::vector<BenchStack> bench_stacks() {
  std::vector<BenchStack> all;
  for (const auto* stack : stacks::all_stacks()) {
    BenchStack one;
    one.name = stack->name;
    if (stack->design().behaviour) one.behaviours = {"faithful", "fixed"};
    if (stack->improved != nullptr) one.behaviours.emplace_back("improved");
    one.lacks_rdma = stacks::hypothetical(stack->design(), true, compute::Processor()).has_value();
    all.push_back(std::move(one));
  }
  return all;
}

void add_bench_training(CLI::App& bench, int& status) {
  auto options = std::make_shared<TrainingOptions>();
  auto* verb = bench.add_subcommand(
      "training", "LeNet through each design, against lone ranks, bare libtorch and PyTorch");
  add_bench_options(*verb, *options);
  verb->add_option("--stacks", options->designs.stacks, "Names with a comma between, or all")
      ->delimiter(',')
      ->capture_default_str();
  verb->add_option("--behaviours", options->designs.behaviours,
                   "faithful, fixed, improved, or all; of the stacks that have them")
      ->delimiter(',')
      ->capture_default_str();
  verb->add_option("--networks", options->designs.networks,
                   "tcp, rdma_shm, rdma_tcp_ofi_rxm, or all of this host; stand-ins for RDMA are "
                   "named beside their figures")
      ->delimiter(',')
      ->capture_default_str();
  verb->add_option("--local-batch-size", options->local_batch_size, "Samples of one rank's step")
      ->capture_default_str();
  verb->add_option("--steps", options->steps, "Steps of a run")->capture_default_str();
  verb->add_option("--data", options->data, "The folder with MNIST")->capture_default_str();
  verb->add_option("--bare", options->bare, "The program bare_libtorch (default: beside this one)");
  verb->footer(
      R"(Examples, after `cmake --build --preset release --target bare_libtorch` (of the arm `bare`):
  dlobd bench training
  dlobd bench training --peers --rounds 7
  dlobd bench training --stacks all --behaviours all --networks tcp,rdma_shm --rounds 6
  dlobd bench training --arms lone,bare --steps 200 --rounds 10
  dlobd bench training --json > training.json

Every arm computes with one thread a rank and the same BLAS kernel.

Exit status: 0 done; 1 an arm failed; 2 refused before anything ran; 130 interrupted.)");
  verb->callback([options, &status] { status = bench_training(*options); });
}

}  // namespace dlobd::app
