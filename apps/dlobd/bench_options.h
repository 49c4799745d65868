// What all benchmarks take and say: their common options, the arms that were asked for, progress,
// and the line about the machine.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench_process.h"
#include "bench_rounds.h"

namespace dlobd::app {

// Of one run of an arm; what takes longer hangs.
inline constexpr auto kArmLimit = std::chrono::minutes(10);

struct BenchOptions {
  std::int64_t ranks = 2;
  std::int64_t rounds = 0;
  std::uint64_t seed = 1;
  std::vector<std::string> arms;  // empty: all
  bool peers = false;
  bool json = false;
};

// Of every benchmark; of those that take any number of ranks and have peers.
void add_rounds_options(CLI::App& verb, BenchOptions& options);
void add_bench_options(CLI::App& verb, BenchOptions& options);

base::Result<void> check_options(const BenchOptions& options);

// Those of `all` that --arms names; `first`, to which all are compared, is always one of them;
// empty: none is. invalid_argument with the nearest name.
base::Result<std::vector<Arm>> choose_arms(std::vector<Arm> all, const BenchOptions& options,
                                           const std::string& first);

// Where the peers' programs are started from. not_found: this is not the repository's root.
base::Result<std::string> find_peers();

// Shows what runs now on stderr, where that is a terminal, in one line that is written over.
std::function<void(const std::string&)> live_line();
void end_live_line();

// CPU, cores, kernel and time of day; and the same in JSON.
std::string machine_line();
nlohmann::json machine();

// Prints "dlobd bench NAME: message" on stderr, and gives the exit status that fits.
int complain_of_bench(const char* name, const base::Error& error, bool started);

// Runs the rounds, then calls show(campaign) if none failed. Gives the exit status.
int run_and_show(const char* name, const std::vector<Arm>& arms, const BenchOptions& options,
                 const std::function<void(const Campaign&)>& show);

// Each verb, in a file of its own.
void add_bench_allreduce(CLI::App& bench, int& status);
void add_bench_training(CLI::App& bench, int& status);
void add_bench_transport(CLI::App& bench, int& status);

}  // namespace dlobd::app
