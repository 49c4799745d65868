#include "bench_rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/check.h"
#include "base/random.h"

namespace dlobd::app {

double median(std::vector<double> values) {
  CHECK(!values.empty(), "the median of nothing");
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Spread spread(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {median(values), *low, *high};
}

double percentile(std::vector<double> values, double share) {
  CHECK(!values.empty() && share > 0 && share <= 1, "the percentile {} of {} values", share,
        values.size());
  std::sort(values.begin(), values.end());
  const double rank = std::ceil(share * static_cast<double>(values.size()));
  return values[static_cast<std::size_t>(rank) - 1];
}

void Campaign::add(const std::string& arm, Run run) {
  rounds_.back().push_back({arm, std::move(run)});
}

std::optional<double> Campaign::figure(std::size_t round, const std::string& arm,
                                       const std::string& figure) const {
  for (const auto& entry : rounds_[round]) {
    if (entry.arm != arm) continue;
    const auto found = entry.run.figures.find(figure);
    if (found != entry.run.figures.end()) return found->second;
  }
  return std::nullopt;
}

std::vector<double> Campaign::values(const std::string& arm, const std::string& name) const {
  std::vector<double> all;
  for (std::size_t round = 0; round < rounds_.size(); ++round) {
    if (const auto value = figure(round, arm, name)) all.push_back(*value);
  }
  return all;
}

std::vector<double> Campaign::pairs(const std::string& arm, const std::string& other,
                                    const std::string& name, Combine combine) const {
  std::vector<double> all;
  for (std::size_t round = 0; round < rounds_.size(); ++round) {
    const auto value = figure(round, arm, name);
    const auto against = figure(round, other, name);
    if (value && against) all.push_back(combine(*value, *against));
  }
  return all;
}

std::vector<double> Campaign::ratios(const std::string& arm, const std::string& other,
                                     const std::string& name) const {
  return pairs(arm, other, name, [](double a, double b) { return a / b; });
}

nlohmann::json Campaign::to_json(const std::string& base) const {
  nlohmann::json all;
  auto& rounds = all["rounds"] = nlohmann::json::array();
  std::map<std::string, std::set<std::string>> figures;
  for (const auto& round : rounds_) {
    auto& line = rounds.emplace_back(nlohmann::json::array());
    for (const auto& entry : round) {
      line.push_back({{"arm", entry.arm}, {"figures", entry.run.figures}, {"raw", entry.run.raw}});
      for (const auto& [name, _] : entry.run.figures) figures[entry.arm].insert(name);
    }
  }
  const auto put = [](const std::vector<double>& values) {
    const Spread found = spread(values);
    return nlohmann::json{
        {"median", found.median}, {"min", found.min}, {"max", found.max}, {"values", values}};
  };
  for (const auto& [arm, names] : figures) {
    for (const auto& name : names) {
      auto& to = all["arms"][arm][name] = put(values(arm, name));
      const auto against = ratios(arm, base, name);
      if (arm != base && !against.empty()) to["ratio_to_" + base] = put(against);
    }
  }
  return all;
}

std::vector<std::size_t> order_of_round(std::size_t arms, std::uint64_t seed, std::size_t round) {
  std::vector<std::size_t> order(arms);
  std::iota(order.begin(), order.end(), 0);
  auto random = base::Random::of({seed, round});
  random.shuffle(std::span(order));
  return order;
}

base::Result<Campaign> run_rounds(const std::vector<Arm>& arms, std::size_t rounds,
                                  std::uint64_t seed,
                                  const std::function<void(const std::string&)>& progress) {
  Campaign campaign;
  for (std::size_t round = 0; round < rounds; ++round) {
    campaign.add_round();
    for (const std::size_t i : order_of_round(arms.size(), seed, round)) {
      progress(fmt::format("round {} of {}: {}", round + 1, rounds, arms[i].title));
      auto run = arms[i].run();
      if (!run) {
        return base::fail(run.error().while_doing(
            fmt::format("running {} in round {}", arms[i].name, round + 1)));
      }
      campaign.add(arms[i].name, std::move(*run));
    }
  }
  return campaign;
}

std::string table(const std::vector<std::vector<std::string>>& lines) {
  std::vector<std::size_t> widths;
  for (const auto& line : lines) {
    widths.resize(std::max(widths.size(), line.size()));
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const auto& line : lines) {
    std::string row;
    for (std::size_t i = 0; i < line.size(); ++i) {
      row += i == 0 ? fmt::format("  {:<{}}", line[i], widths[i])
                    : fmt::format("   {:>{}}", line[i], widths[i]);
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
    if (&line == &lines.front()) {
      text +=
          "  " +
          std::string(std::accumulate(widths.begin(), widths.end(), 3 * (widths.size() - 1)), '-') +
          "\n";
    }
  }
  return text;
}

std::string ratio_text(const std::vector<double>& ratios) {
  if (ratios.empty()) return {};
  const Spread found = spread(ratios);
  return ratios.size() == 1
             ? fmt::format("{:.3g}", found.median)
             : fmt::format("{:.3g} ({:.3g} .. {:.3g})", found.median, found.min, found.max);
}

}  // namespace dlobd::app
