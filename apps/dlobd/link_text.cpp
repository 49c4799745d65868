#include "link_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "base/nearest.h"

namespace dlobd::app {

using base::ErrorKind;
using base::fail;
using base::Result;

namespace {

struct Bounds {
  double low;
  double high;
};
constexpr Bounds kTimes{0, 3600e9};  // in ns; more is no network, and takes ages of heartbeats
constexpr Bounds kRates{0, 9e18};    // in bytes per second; 0: unlimited

// "1.25GB/s" with {"GB/s": 1e9}: 1.25e9
Result<double> quantity(std::string_view text, const std::map<std::string_view, double>& units,
                        Bounds bounds) {
  if (text == "0") return 0.0;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const auto factor = units.find(unit);
  if (error != std::errc() || factor == units.end() || !std::isfinite(number)) {
    std::string known;
    for (const auto& [name, scale] : units)
      known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
    return fail(ErrorKind::invalid_argument, fmt::format("not a quantity in {}: {}", known, text));
  }
  const double value = number * factor->second;
  if (value < bounds.low || value > bounds.high) {
    return fail(ErrorKind::invalid_argument,
                fmt::format("not from {:g} to {:g} {}: {}", bounds.low / units.begin()->second,
                            bounds.high / units.begin()->second, units.begin()->first, text));
  }
  return value;
}

}  // namespace

Result<void> refuse_repeated(const char* option, std::string_view words) {
  std::set<std::string_view> seen;
  while (!words.empty()) {
    const auto word = words.substr(0, words.find(','));
    words.remove_prefix(std::min(words.size(), word.size() + 1));
    const auto key = word.substr(0, word.find('='));
    if (!seen.insert(key).second) {
      return fail(ErrorKind::invalid_argument,
                  fmt::format("{} has {} twice: give it once", option, key));
    }
  }
  return {};
}

Result<transport::simulated::LinkModel> parse_link(std::string_view text) {
  DLOBD_TRY_VOID(once, refuse_repeated("--link", text));
  using namespace std::chrono_literals;
  transport::simulated::LinkModel link;
  link.latency = 20us;
  link.bandwidth_bytes_per_second = 1'250'000'000;
  link.send_per_message = 5us;
  link.receive_per_message = 5us;
  link.send_per_piece = 1us;
  link.receive_per_piece = 1us;
  const std::map<std::string_view, double> times{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  const std::map<std::string_view, double> rates{
      {"B/s", 1}, {"kB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}};
  const std::map<std::string, base::Duration*> durations{{"latency", &link.latency},
                                                         {"send", &link.send_per_message},
                                                         {"receive", &link.receive_per_message},
                                                         {"piece_send", &link.send_per_piece},
                                                         {"piece_receive", &link.receive_per_piece},
                                                         {"jitter", &link.jitter}};
  while (!text.empty()) {
    const auto comma = text.find(',');
    const auto word = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    const auto equals = word.find('=');
    const std::string key(word.substr(0, equals));
    const auto value =
        equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1);
    if (key == "bandwidth") {
      DLOBD_TRY(rate, quantity(value, rates, kRates));
      link.bandwidth_bytes_per_second = static_cast<std::uint64_t>(std::ceil(rate));
    } else if (const auto known = durations.find(key); known != durations.end()) {
      DLOBD_TRY(time, quantity(value, times, kTimes));
      *known->second = base::Duration(static_cast<std::int64_t>(time));
    } else {
      std::vector<std::string> keys{"bandwidth"};
      for (const auto& [name, place] : durations) keys.push_back(name);
      return fail(ErrorKind::invalid_argument,
                  fmt::format("--link has no key {}; {}", key, base::suggestion(key, keys)));
    }
  }
  return link;
}

}  // namespace dlobd::app
