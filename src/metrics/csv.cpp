#include "metrics/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <system_error>
#include <tuple>
#include <type_traits>

namespace dlobd::metrics {
namespace {

// Both files as lists of columns: `visit` sees (name, member).
template <class Row, class Visit>
void for_each_column(Row& row,
                     Visit visit) requires std::is_same_v<std::remove_const_t<Row>, StepRow> {
  auto& totals = row.totals;
  visit("rank", row.rank);
  visit("step", row.step);
  visit("start_ns", totals.start);
  visit("wall_ns", totals.wall);
  for (std::size_t i = 0; i < kPhases; ++i) {
    visit(fmt::format("{}_ns", kPhaseNames[i]), totals.phases[i]);
  }
  visit("unattributed_ns", totals.unattributed);
  visit("communication_ns", totals.communication);
  visit("samples", row.samples);
  visit("loss", row.loss);
  visit("staleness", row.staleness);
}

template <class Row, class Visit>
void for_each_column(Row& row,
                     Visit visit) requires std::is_same_v<std::remove_const_t<Row>, EvaluationRow> {
  visit("step", row.step);
  visit("epoch", row.epoch);
  visit("time_ns", row.time_ns);
  visit("samples", row.samples);
  visit("loss", row.loss);
  visit("accuracy", row.accuracy);
}

class RowWriter {
 public:
  explicit RowWriter(std::string& out) : out_(out) {}
  template <class T>
  requires std::is_integral_v<T>
  void put(T value) { fmt::format_to(next(), "{}", value); }
  void put(base::Duration value) { put(value.count()); }
  void put(double value) {
    if (std::isnan(value)) {
      put(std::string_view("nan"));  // not "-nan"
    } else {
      fmt::format_to(next(), "{}", value);
    }
  }
  void put(std::string_view text) { fmt::format_to(next(), "{}", text); }
  void end() {
    out_ += '\n';
    first_ = true;
  }

 private:
  std::back_insert_iterator<std::string> next() {
    if (!first_) out_ += ',';
    first_ = false;
    return std::back_inserter(out_);
  }
  std::string& out_;
  bool first_ = true;
};

template <class Row>
std::string format(const std::vector<Row>& rows) {
  std::string out;
  RowWriter writer(out);
  const Row names;
  for_each_column(names, [&](std::string_view column, const auto&) { writer.put(column); });
  writer.end();
  for (const Row& row : rows) {
    for_each_column(row, [&](std::string_view, const auto& value) { writer.put(value); });
    writer.end();
  }
  return out;
}

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> cells;
  for (;;) {
    const std::size_t comma = line.find(',');
    cells.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

template <class T>
bool read(std::string_view cell, T& value) requires std::is_arithmetic_v<T> {
  const auto parsed = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return parsed.ec == std::errc() && parsed.ptr == cell.data() + cell.size();
}
bool read(std::string_view cell, base::Duration& value) {
  base::Duration::rep count = 0;
  if (!read(cell, count)) return false;
  value = base::Duration(count);
  return true;
}

std::string_view take_line(std::string_view& text) {
  std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

template <class Row>
base::Result<std::vector<Row>> parse(std::string_view text) {
  using base::ErrorKind;
  const bool cut = !text.ends_with('\n');
  std::map<std::string, std::size_t, std::less<>> columns;
  const auto names = split(take_line(text));
  for (std::size_t i = 0; i < names.size(); ++i) columns.emplace(names[i], i);

  // Where in a line each column of ours lies.
  std::vector<std::size_t> places;
  std::string missing;
  const Row all;
  for_each_column(all, [&](std::string_view column, const auto&) {
    const auto found = columns.find(column);
    if (found == columns.end()) {
      if (missing.empty()) missing = column;
    } else {
      places.push_back(found->second);
    }
  });
  if (!missing.empty()) {
    return base::fail(ErrorKind::corrupt_data, fmt::format("no column \"{}\"", missing));
  }
  if (cut) return base::fail(ErrorKind::corrupt_data, "its last line is cut off");

  std::vector<Row> rows;
  for (std::size_t number = 2; !text.empty(); ++number) {
    const auto cells = split(take_line(text));
    if (cells.size() != names.size()) {
      return base::fail(ErrorKind::corrupt_data, fmt::format("line {} has {} cells, the header {}",
                                                             number, cells.size(), names.size()));
    }
    Row& row = rows.emplace_back();
    std::size_t index = 0;
    std::string wrong;
    for_each_column(row, [&](std::string_view column, auto& value) {
      const std::string_view cell = cells[places[index++]];
      if (!read(cell, value) && wrong.empty()) {
        wrong = fmt::format("line {}, column {} is \"{}\"", number, column, cell.substr(0, 40));
      }
    });
    if (!wrong.empty()) return base::fail(ErrorKind::corrupt_data, std::move(wrong));
  }
  return rows;
}

}  // namespace

std::string steps_csv(std::vector<StepRow> rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const StepRow& a, const StepRow& b) {
    return std::tie(a.step, a.rank) < std::tie(b.step, b.rank);
  });
  return format(rows);
}

std::string evaluations_csv(const std::vector<EvaluationRow>& rows) {
  return format(rows);
}

base::Result<std::vector<StepRow>> parse_steps_csv(std::string_view text) {
  return parse<StepRow>(text);
}

base::Result<std::vector<EvaluationRow>> parse_evaluations_csv(std::string_view text) {
  return parse<EvaluationRow>(text);
}

}  // namespace dlobd::metrics
