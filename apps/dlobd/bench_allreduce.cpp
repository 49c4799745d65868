// `dlobd bench allreduce`: the sum of a buffer over all ranks, against what sockets and memory
// could do.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "bench_collective.h"
#include "bench_network.h"
#include "bench_options.h"
#include "bench_raw.h"
#include "bench_sizes.h"

namespace dlobd::app {

using base::ErrorKind;
using base::fail;
using base::Result;

namespace {

constexpr const char* kDlobd = "dlobd";

struct AllReduceOptions : BenchOptions {
  std::vector<std::string> sizes{"4KiB", "64KiB", "1724320", "100MiB"};
  BenchNetworkOptions network;
  AllReduceOptions() { rounds = 7; }
};

// One arm's processes, whose bodies gave the seconds of each iteration. An iteration takes as long
// as its slowest rank.
Run from_ranks(const std::vector<Blob>& blobs, const std::vector<std::uint64_t>& sizes) {
  std::vector<double> slowest = from_blob(blobs[0]);
  for (const auto& blob : blobs) {
    const auto other = from_blob(blob);
    for (std::size_t i = 0; i < slowest.size(); ++i) slowest[i] = std::max(slowest[i], other[i]);
  }
  Run run;
  std::size_t at = 0;
  for (const std::uint64_t bytes : sizes) {
    std::vector<double> us;
    for (std::size_t i = 0; i < iterations_of(bytes); ++i) us.push_back(1e6 * slowest.at(at++));
    const std::string key = std::to_string(bytes);
    run.figures[key] = median(us);
    run.raw["iterations_us"][key] = std::move(us);
  }
  return run;
}

// One JSON line for each size, as bench/peers prints them.
Result<Run> from_lines(const std::string& output) {
  Run run;
  std::size_t at = 0;
  while (at < output.size()) {
    const auto end = std::min(output.find('\n', at), output.size());
    const auto line = nlohmann::json::parse(output.substr(at, end - at), nullptr, false);
    at = end + 1;
    if (!line.is_object() || !line.contains("bytes") || !line.contains("median_us")) continue;
    run.figures[std::to_string(line["bytes"].get<std::uint64_t>())] =
        line["median_us"].get<double>();
  }
  if (run.figures.empty())
    return fail(ErrorKind::corrupt_data, "a peer printed no figures: " + output);
  return run;
}

struct AllReduceBench {
  AllReduceOptions options;
  std::vector<std::uint64_t> sizes;
  BenchNetwork network;
  Interrupt interrupt;

  Arm forked(const std::string& name, const std::string& title, int ranks, RankBody body) {
    return {name, title, [this, ranks, body = std::move(body)]() -> Result<Run> {
              DLOBD_TRY(blobs, run_forked(ranks, body, interrupt, kArmLimit));
              return from_ranks(blobs, sizes);
            }};
  }

  Arm peer(const std::string& name, const std::string& title, const std::string& program) {
    return {name, title, [this, name, program]() -> Result<Run> {
              Command command;
              command.words = {program, name, std::to_string(options.ranks), "1"};
              for (const auto bytes : sizes) command.words.push_back(std::to_string(bytes));
              DLOBD_TRY(finished, run_commands({&command, 1}, interrupt, kArmLimit));
              return from_lines(finished[0].output);
            }};
  }

  Result<std::vector<Arm>> arms() {
    std::vector<Arm> all;
    const auto ranks = static_cast<int>(options.ranks);
    const RankBody ours = [this](Seat& seat) { return collective(seat, sizes, network); };
    all.push_back(forked(kDlobd, "dlobd, " + network.title(), ranks, ours));
    all.push_back(forked("dlobd_again", "the same, a second time (A/A)", ranks, ours));
    if (ranks == 2) {
      for (const auto& setting : raw_settings()) {
        all.push_back(forked(setting.name, setting.name, ranks, [this, setting](Seat& seat) {
          return raw_exchange(seat, setting, sizes);
        }));
      }
    }
    all.push_back(forked("memcpy", "memcpy of the same size", 1,
                         [this](Seat&) { return copy_memory(sizes); }));
    if (options.peers) {
      DLOBD_TRY(program, find_peers());
      all.push_back(peer("openmpi_tcp", "OpenMPI, TCP", program));
      all.push_back(peer("openmpi_shm", "OpenMPI, shared memory", program));
      all.push_back(peer("gloo", "PyTorch, Gloo", program));
    }
    return choose_arms(std::move(all), options, kDlobd);
  }
};

// The raw setting with the lowest median at this size; empty if none ran.
std::string best_raw(const std::vector<Arm>& arms, const Campaign& campaign,
                     const std::string& size) {
  std::string best;
  double lowest = 0;
  for (const auto& arm : arms) {
    if (arm.name.rfind("raw_", 0) != 0) continue;
    const double us = median(campaign.values(arm.name, size));
    if (best.empty() || us < lowest) {
      best = arm.name;
      lowest = us;
    }
  }
  return best;
}

void print_tables(const AllReduceBench& bench, const std::vector<Arm>& arms,
                  const Campaign& campaign) {
  fmt::print("All-reduce of float32 over {} processes, {}, {} rounds, seed {}\n{}\n",
             bench.options.ranks, bench.network.title(), campaign.rounds(), bench.options.seed,
             machine_line());
  for (const std::uint64_t bytes : bench.sizes) {
    const std::string key = std::to_string(bytes);
    const std::string limit = best_raw(arms, campaign, key);
    std::vector<std::vector<std::string>> lines{
        {size_text(bytes), "us", "algbw GB/s", "time to dlobd's, in a round"}};
    for (const auto& arm : arms) {
      const bool raw = arm.name.rfind("raw_", 0) == 0;
      if (raw && arm.name != limit) continue;
      const double us = median(campaign.values(arm.name, key));
      lines.push_back(
          {raw ? fmt::format("raw exchange, best: {}", arm.name) : arm.title,
           fmt::format("{:.1f}", us), fmt::format("{:.2f}", static_cast<double>(bytes) / us / 1e3),
           arm.name == kDlobd ? "1" : ratio_text(campaign.ratios(arm.name, kDlobd, key))});
    }
    fmt::print("\n{}", table(lines));
  }
  fmt::print(
      "\nMedians over the rounds. A time ratio above 1: dlobd is faster. In brackets: the lowest "
      "and highest round.\n");
  if (bench.options.ranks != 2)
    fmt::print("The raw exchange is one of two processes: it runs with --ranks 2 only.\n");
}

void print_json(const AllReduceBench& bench, const std::vector<Arm>& arms,
                const Campaign& campaign) {
  auto all = campaign.to_json(kDlobd);
  all["benchmark"] = "allreduce";
  all["unit"] = "us";
  all["machine"] = machine();
  all["config"] = {{"ranks", bench.options.ranks},
                   {"rounds", bench.options.rounds},
                   {"seed", bench.options.seed},
                   {"network", bench.network.name()},
                   {"software_rdma", bench.network.software},
                   {"connections_per_peer", bench.network.connections_per_peer},
                   {"sizes_bytes", bench.sizes}};
  for (const std::uint64_t bytes : bench.sizes) {
    const std::string key = std::to_string(bytes);
    if (const auto limit = best_raw(arms, campaign, key); !limit.empty())
      all["best_raw"][key] = limit;
  }
  fmt::print("{}\n", all.dump());
}

int bench_allreduce(const AllReduceOptions& options) {
  constexpr const char* kName = "allreduce";
  if (auto good = check_options(options); !good)
    return complain_of_bench(kName, good.error(), false);
  AllReduceBench bench;
  bench.options = options;
  auto sizes = parse_sizes(options.sizes, sizeof(float));
  if (!sizes) return complain_of_bench(kName, sizes.error(), false);
  bench.sizes = *sizes;
  auto here = networks_here(bench.interrupt);
  if (!here) return complain_of_bench(kName, here.error(), false);
  auto network = choose_network(options.network, *here);
  if (!network) return complain_of_bench(kName, network.error(), false);
  bench.network = *network;
  auto arms = bench.arms();
  if (!arms) return complain_of_bench(kName, arms.error(), false);
  return run_and_show(kName, *arms, options, [&](const Campaign& campaign) {
    if (options.json) {
      print_json(bench, *arms, campaign);
    } else {
      print_tables(bench, *arms, campaign);
    }
  });
}

}  // namespace

void add_bench_allreduce(CLI::App& bench, int& status) {
  auto options = std::make_shared<AllReduceOptions>();
  auto* verb = bench.add_subcommand(
      "allreduce", "The all-reduce over TCP or RDMA, against plain sockets, memcpy and peers");
  add_bench_options(*verb, *options);
  verb->add_option("--sizes", options->sizes,
                   "Bytes of a buffer, with a comma between: 4KiB,1724320,100MiB")
      ->delimiter(',')
      ->capture_default_str();
  add_network_options(*verb, options->network);
  verb->footer(R"(Examples:
  dlobd bench allreduce
  dlobd bench allreduce --peers --rounds 15
  dlobd bench allreduce --network rdma --provider shm --peers --arms openmpi_shm
  dlobd bench allreduce --sizes 1724320 --arms raw_poll,raw_spin_256k --rounds 30
  dlobd bench allreduce --ranks 4 --json > allreduce.json

The time of an all-reduce is that of its slowest rank. They follow one another as in training, after a tenth of
them as warm-up; the sums are checked once for each size.

Exit status: 0 done; 1 an arm failed; 2 refused before anything ran; 130 interrupted.)");
  verb->callback([options, &status] { status = bench_allreduce(*options); });
}

}  // namespace dlobd::app
