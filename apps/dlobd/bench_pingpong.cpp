#include "bench_pingpong.h"

#include <fmt/format.h>

#include <algorithm>

#include "transport/message.h"

namespace dlobd::app {

using base::ErrorKind;
using base::fail;
using base::Result;

const char* name(Way way) {
  return way == Way::write ? "write" : "message";
}

bool goes(Way way, std::uint64_t bytes) {
  return way == Way::write || bytes <= transport::kMaxMessageBytes;
}

PingPongPlan plan_of(std::uint64_t bytes, std::size_t most) {
  constexpr std::uint64_t kLatencyBytes = 100'000'000;
  constexpr std::uint64_t kWindowBytes = 4 << 20;
  constexpr std::uint64_t kStreamBytes = 200'000'000;
  PingPongPlan plan;
  plan.round_trips = std::clamp<std::uint64_t>(kLatencyBytes / bytes, 100, 5000);
  plan.window = std::clamp<std::uint64_t>(kWindowBytes / bytes, 2, 64);
  plan.windows = std::clamp<std::uint64_t>(kStreamBytes / (bytes * plan.window), 10, 200);
  plan.round_trips = std::min(plan.round_trips, most);
  plan.windows = std::min(plan.windows, most);
  return plan;
}

Blob to_blob(const PingPongs& measured) {
  nlohmann::json all;
  for (const auto& [way, sizes] : measured) {
    for (const auto& [bytes, one] : sizes) {
      all[name(way)][std::to_string(bytes)] = {
          {"half_round_trips_us", one.half_trips_us},
          {"windows_us", one.windows_us},
          {"sent_bytes", one.sent_bytes},
          {"copied_bytes", one.copies.copied_bytes},
          {"injected_bytes", one.copies.injected_bytes},
          {"temporary_registrations", one.copies.temporary_registrations}};
    }
  }
  const std::string text = all.dump();
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return Blob(first, first + text.size());
}

std::string figure_name(Way way, const char* what, std::uint64_t bytes) {
  return fmt::format("{}_{}_{}", name(way), what, bytes);
}

namespace {

double sum_of(const std::vector<nlohmann::json>& ranks, const char* way, const std::string& size,
              const char* what) {
  double sum = 0;
  for (const auto& rank : ranks) sum += rank.at(way).at(size).at(what).get<double>();
  return sum;
}

Run figures_of(const std::vector<nlohmann::json>& ranks) {
  Run run;
  run.figures["injected_bytes"] = 0;
  run.figures["temporary_registrations"] = 0;
  for (const Way way : kWays) {
    if (!ranks[0].contains(name(way))) continue;
    for (const auto& [size, one] : ranks[0].at(name(way)).items()) {
      const std::uint64_t bytes = std::stoull(size);
      const auto trips = one.at("half_round_trips_us").get<std::vector<double>>();
      const auto windows = one.at("windows_us").get<std::vector<double>>();
      run.figures[figure_name(way, "us", bytes)] = median(trips);
      run.figures[figure_name(way, "p99_us", bytes)] = percentile(trips, 0.99);
      run.figures[figure_name(way, "gigabytes_per_second", bytes)] =
          static_cast<double>(bytes * plan_of(bytes).window) / median(windows) / 1e3;
      const double sent = sum_of(ranks, name(way), size, "sent_bytes");
      if (sent > 0) {
        run.figures[figure_name(way, "copies", bytes)] =
            sum_of(ranks, name(way), size, "copied_bytes") / sent;
      }
      for (const char* what : {"injected_bytes", "temporary_registrations"})
        run.figures[what] += sum_of(ranks, name(way), size, what);
      run.raw[name(way)][size] = one;
    }
  }
  return run;
}

}  // namespace

Result<Run> run_of(const std::vector<Blob>& blobs) {
  std::vector<nlohmann::json> ranks;
  for (const auto& blob : blobs) {
    const std::string_view text(reinterpret_cast<const char*>(blob.data()), blob.size());
    ranks.push_back(nlohmann::json::parse(text, nullptr, false));
    if (!ranks.back().is_object())
      return fail(ErrorKind::corrupt_data, "a rank of the benchmark gave no figures");
  }
  try {
    return figures_of(ranks);
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorKind::corrupt_data,
                fmt::format("a rank of the benchmark gave no figures: {}", error.what()));
  }
}

namespace {

std::byte pattern_at(std::size_t place, int seed) {
  return static_cast<std::byte>((place * 131 + place / 251 + static_cast<std::size_t>(seed) * 89) %
                                256);
}

}  // namespace

void fill_pattern(std::span<std::byte> bytes, int seed) {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern_at(i, seed);
}

Result<void> check_pattern(std::span<const std::byte> bytes, int seed) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == pattern_at(i, seed)) continue;
    return fail(
        ErrorKind::corrupt_data,
        fmt::format("wrong bytes arrived: from rank {}, byte {} of {}", seed, i, bytes.size()));
  }
  return {};
}

}  // namespace dlobd::app
