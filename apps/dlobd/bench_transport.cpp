// `dlobd bench transport`: latency and bandwidth between two ranks by size, one-sided and
// two-sided, over every network of this host, against what sockets and shared memory could do.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "bench_network.h"
#include "bench_options.h"
#include "bench_pingpong.h"
#include "bench_raw_pingpong.h"
#include "bench_sizes.h"

namespace dlobd::app {

using base::ErrorKind;
using base::fail;
using base::Result;

namespace {

struct TransportOptions : BenchOptions {
  std::vector<std::string> sizes{"8B", "64B", "512B", "4KiB", "32KiB", "256KiB", "2MiB", "16MiB"};
  TransportOptions() { rounds = 5; }
};

// A network's arm: whose raw limit is that of sockets, or of memory.
struct NetworkArm {
  std::string name;
  std::string title;
  std::string raw;  // what the names of its limits begin with
};

struct TransportBench {
  TransportOptions options;
  std::vector<std::uint64_t> sizes;
  std::vector<BenchNetwork> networks;
  std::vector<NetworkArm> measured;  // in the order of the tables
  Interrupt interrupt;

  Arm over(const std::string& name, const std::string& title, const BenchNetwork& network) {
    measured.push_back({name, title, network.provider == "shm" ? "raw_memory" : "raw_tcp"});
    return {name, title, [this, network]() -> Result<Run> {
              const RankBody body = [this, &network](Seat& seat) {
                return ping_pong(seat, network, sizes);
              };
              DLOBD_TRY(blobs, run_forked(2, body, interrupt, kArmLimit));
              return run_of(blobs);
            }};
  }

  Arm raw(const RawPingPong& setting) {
    return {setting.name, setting.name, [this, setting]() -> Result<Run> {
              const SharedMemory shared(shared_bytes(sizes));
              const RankBody body = [this, &setting, &shared](Seat& seat) {
                return raw_ping_pong(seat, setting, shared.data(), sizes);
              };
              DLOBD_TRY(blobs, run_forked(2, body, interrupt, kArmLimit));
              return run_of(blobs);
            }};
  }

  Result<std::vector<Arm>> arms() {
    std::vector<Arm> all;
    for (const auto& network : networks)
      all.push_back(over(network.name(), network.title(), network));
    all.push_back(over("tcp_again", "tcp, a second time (A/A)", BenchNetwork()));
    for (const auto& setting : raw_ping_pongs()) all.push_back(raw(setting));
    DLOBD_TRY(chosen, choose_arms(std::move(all), options, ""));
    std::erase_if(measured, [&](const NetworkArm& arm) {
      return std::none_of(chosen.begin(), chosen.end(),
                          [&](const Arm& one) { return one.name == arm.name; });
    });
    return chosen;
  }
};

// The limit's arm with the lowest, or the highest, median of a figure; empty if none ran.
std::string best_limit(const std::vector<Arm>& arms, const Campaign& campaign,
                       const std::string& raw, const std::string& figure, bool lowest) {
  std::string best;
  double found = 0;
  for (const auto& arm : arms) {
    if (arm.name.rfind(raw, 0) != 0) continue;
    const double value = median(campaign.values(arm.name, figure));
    if (!best.empty() && (lowest ? value >= found : value <= found)) continue;
    best = arm.name;
    found = value;
  }
  return best;
}

std::string median_text(const Campaign& campaign, const std::string& arm, const std::string& figure,
                        int digits) {
  const auto values = campaign.values(arm, figure);
  return values.empty() ? "" : fmt::format("{:.{}f}", median(values), digits);
}

void print_network(const TransportBench& bench, const std::vector<Arm>& arms,
                   const Campaign& campaign, const NetworkArm& network, Way way) {
  std::vector<std::vector<std::string>> lines{{way == Way::write ? "one-sided" : "two-sided", "us",
                                               "p99 us", "raw us", "time to raw's", "GB/s",
                                               "raw GB/s", "rate to raw's", "copies"}};
  for (const std::uint64_t bytes : bench.sizes) {
    if (!goes(way, bytes)) continue;
    const std::string us = figure_name(way, "us", bytes);
    const std::string rate = figure_name(way, "gigabytes_per_second", bytes);
    const std::string quick = best_limit(arms, campaign, network.raw, us, true);
    const std::string wide = best_limit(arms, campaign, network.raw, rate, false);
    lines.push_back(
        {size_text(bytes), median_text(campaign, network.name, us, 2),
         median_text(campaign, network.name, figure_name(way, "p99_us", bytes), 1),
         median_text(campaign, quick, us, 2), ratio_text(campaign.ratios(network.name, quick, us)),
         median_text(campaign, network.name, rate, 3), median_text(campaign, wide, rate, 3),
         ratio_text(campaign.ratios(network.name, wide, rate)),
         median_text(campaign, network.name, figure_name(way, "copies", bytes), 2)});
  }
  fmt::print("\n{}\n{}", network.title, table(lines));
}

// The one figure that has an aim.
void print_aim(const TransportBench& bench, const Campaign& campaign) {
  constexpr std::uint64_t kBytes = 4096;
  constexpr double kAimUs = 3;
  for (const auto& network : bench.measured) {
    const auto us = campaign.values(network.name, figure_name(Way::write, "us", kBytes));
    if (network.name != "rdma_shm" || us.empty()) continue;
    fmt::print("\n4 KiB one-sided over {}: {:.2f} us, the aim is under {} us: {}\n", network.title,
               median(us), kAimUs, median(us) < kAimUs ? "met" : "missed");
  }
}

void print_networks(const TransportBench& bench, const std::vector<Arm>& arms,
                    const Campaign& campaign) {
  fmt::print("Two processes of this host, {} rounds, seed {}\n{}\n", campaign.rounds(),
             bench.options.seed, machine_line());
  for (const auto& network : bench.measured) {
    for (const Way way : kWays) {
      const bool any = std::any_of(bench.sizes.begin(), bench.sizes.end(),
                                   [way](std::uint64_t bytes) { return goes(way, bytes); });
      if (any) print_network(bench, arms, campaign, network, way);
    }
    const double made = median(campaign.values(network.name, "temporary_registrations"));
    if (made > 0) fmt::print("  {:.0f} registrations of memory for single writes\n", made);
  }
  print_aim(bench, campaign);
  fmt::print(
      "\nMedians over the rounds; in brackets the lowest and highest round. us: half of a round "
      "trip, median and 99th\n"
      "percentile of a run. raw: the best of several settings at each size, sockets for tcp, "
      "memory for shm. Copies: bytes\n"
      "that this program copied, on both ranks, for each byte that was sent; what the kernel or "
      "the provider copies is not\n"
      "in it.\n");
}

void print_transport_json(const TransportBench& bench, const std::vector<Arm>& arms,
                          const Campaign& campaign) {
  auto all = campaign.to_json("");
  all["benchmark"] = "transport";
  all["machine"] = machine();
  all["config"] = {
      {"rounds", bench.options.rounds}, {"seed", bench.options.seed}, {"sizes_bytes", bench.sizes}};
  for (const auto& network : bench.networks) {
    all["networks"][network.name()] = {{"title", network.title()},
                                       {"provider", network.provider},
                                       {"device", network.device},
                                       {"software_rdma", network.software}};
  }
  for (const auto& network : bench.measured) {
    for (const Way way : kWays) {
      for (const std::uint64_t bytes : bench.sizes) {
        if (!goes(way, bytes)) continue;
        for (const char* what : {"us", "gigabytes_per_second"}) {
          const std::string figure = figure_name(way, what, bytes);
          const auto best = best_limit(arms, campaign, network.raw, figure, what[0] == 'u');
          if (best.empty()) continue;
          all["to_raw"][network.name][figure] = {
              {"raw", best}, {"ratios", campaign.ratios(network.name, best, figure)}};
        }
      }
    }
  }
  fmt::print("{}\n", all.dump());
}

int bench_transport(const TransportOptions& options) {
  constexpr const char* kName = "transport";
  if (auto good = check_options(options); !good)
    return complain_of_bench(kName, good.error(), false);
  TransportBench bench;
  bench.options = options;
  auto sizes = parse_sizes(options.sizes, 1);
  if (!sizes) return complain_of_bench(kName, sizes.error(), false);
  bench.sizes = *sizes;
  auto here = networks_here(bench.interrupt);
  if (!here) return complain_of_bench(kName, here.error(), false);
  bench.networks = *here;
  auto arms = bench.arms();
  if (!arms) return complain_of_bench(kName, arms.error(), false);
  return run_and_show(kName, *arms, options, [&](const Campaign& campaign) {
    if (options.json) {
      print_transport_json(bench, *arms, campaign);
    } else {
      print_networks(bench, *arms, campaign);
    }
  });
}

}  // namespace

void add_bench_transport(CLI::App& bench, int& status) {
  auto options = std::make_shared<TransportOptions>();
  auto* verb = bench.add_subcommand(
      "transport",
      "Messages between two ranks over each network of this host, against sockets and memory");
  add_rounds_options(*verb, *options);
  verb->add_option("--sizes", options->sizes,
                   "Bytes of a message, with a comma between: 8B,4KiB,16MiB")
      ->delimiter(',')
      ->capture_default_str();
  verb->footer(R"(Examples:
  dlobd bench transport
  dlobd bench transport --sizes 4KiB --arms rdma_shm,raw_memory_copy --rounds 15
  dlobd bench transport --json > transport.json

Networks: tcp; rdma(shm) and rdma(tcp;ofi_rxm), software stand-ins where libfabric has them; each device of RDMA
that is here, both ranks on it. One-sided: a write into the peer's registered memory, with a notification.
Two-sided: a message that brings its payload, up to 64 KiB. Latency is half of a round trip; bandwidth that of a
window of messages, up to 64, acknowledged at its end. Every size is checked before it is measured.

Exit status: 0 done; 1 an arm failed; 2 refused before anything ran; 130 interrupted.)");
  verb->callback([options, &status] { status = bench_transport(*options); });
}

}  // namespace dlobd::app
