// What every benchmark here shares: arms that run once in each round, in an order drawn anew for
// each round, so that what else happens on the machine falls on all alike. A figure of an arm is
// the median over the rounds; a comparison of two arms is the median of their ratios, each taken
// within one round. Pure, but for the arms themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace dlobd::app {

// What one run of an arm found: named figures, and whatever else the raw record should keep.
struct Run {
  std::map<std::string, double> figures;
  nlohmann::json raw = nlohmann::json::object();
};

// `run` takes fresh processes each time it is called.
struct Arm {
  std::string name;   // in --arms and in the record
  std::string title;  // in tables
  std::function<base::Result<Run>()> run;
};

struct Spread {
  double median = 0;
  double min = 0;
  double max = 0;
};

// Of at least one value; the mean of the middle two where their number is even.
double median(std::vector<double> values);
Spread spread(const std::vector<double>& values);
// The smallest value that is not below a share of them: 0.99 of at least 100.
double percentile(std::vector<double> values, double share);

class Campaign {
 public:
  void add_round() { rounds_.emplace_back(); }
  // To the latest round.
  void add(const std::string& arm, Run run);

  [[nodiscard]] std::size_t rounds() const { return rounds_.size(); }
  // The figure of an arm in each round that has it.
  [[nodiscard]] std::vector<double> values(const std::string& arm, const std::string& figure) const;
  // Of two figures by one function, in each round that has both.
  using Combine = double (*)(double, double);
  [[nodiscard]] std::vector<double> pairs(const std::string& arm, const std::string& other,
                                          const std::string& figure, Combine combine) const;
  // arm / other, within each round.
  [[nodiscard]] std::vector<double> ratios(const std::string& arm, const std::string& other,
                                           const std::string& figure) const;

  // Every figure, ratio to `base` and raw record of every round, in the order in which they ran.
  [[nodiscard]] nlohmann::json to_json(const std::string& base) const;

 private:
  struct Entry {
    std::string arm;
    Run run;
  };
  [[nodiscard]] std::optional<double> figure(std::size_t round, const std::string& arm,
                                             const std::string& figure) const;
  std::vector<std::vector<Entry>> rounds_;
};

// The order of `arms` arms in round `round` (from 0): a permutation.
std::vector<std::size_t> order_of_round(std::size_t arms, std::uint64_t seed, std::size_t round);

// Runs every arm in every round; the first that fails ends it, with the name of the arm. `progress`
// hears what runs next.
base::Result<Campaign> run_rounds(const std::vector<Arm>& arms, std::size_t rounds,
                                  std::uint64_t seed,
                                  const std::function<void(const std::string&)>& progress);

// Lines of cells under a head, in columns: the first to the left, the others to the right.
std::string table(const std::vector<std::vector<std::string>>& lines);

// "0.97 (0.913 .. 1.04)"; empty text where there is nothing.
std::string ratio_text(const std::vector<double>& ratios);

}  // namespace dlobd::app
