#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "base/nearest.h"
#include "exchange/optimizer.h"

namespace dlobd::exchange {
namespace {

using Policy = LearningRate::Policy;

const std::vector<std::string>& policy_names() {
  static const std::vector<std::string> names{"fixed", "step", "multistep", "inv"};
  return names;
}

// The keys that each policy takes, in the order of text().
std::vector<std::string> keys_of(Policy policy) {
  switch (policy) {
    case Policy::fixed: return {};
    case Policy::step: return {"gamma", "size"};
    case Policy::multistep: return {"gamma", "at"};
    case Policy::inv: return {"gamma", "power"};
  }
  return {};
}

template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

base::Failure refuse(std::string message) {
  return base::fail(base::ErrorKind::invalid_argument, std::move(message));
}

base::Result<double> not_negative(std::string_view what, std::string_view text) {
  const auto value = number<double>(text);
  if (!value || !std::isfinite(*value) || *value < 0) {
    return refuse(fmt::format("{} must be a finite number that is not negative: {}", what, text));
  }
  return *value;
}

base::Result<std::vector<std::uint64_t>> rising_steps(std::string_view text) {
  std::vector<std::uint64_t> steps;
  for (const std::string_view part : split(text, '/')) {
    const auto step = number<std::uint64_t>(part);
    if (!step || (!steps.empty() && *step <= steps.back())) {
      return refuse(fmt::format(
          "the steps of a multistep learning rate must rise, as in at=1000/2000: {}", text));
    }
    steps.push_back(*step);
  }
  return steps;
}

base::Result<void> set(LearningRate& rate, std::string_view key, std::string_view value) {
  if (key == "size") {
    const auto size = number<std::uint64_t>(value);
    if (!size || *size == 0) {
      return refuse(fmt::format("the step size of a learning rate must be at least 1: {}", value));
    }
    rate.step_size = *size;
  } else if (key == "at") {
    DLOBD_TRY(steps, rising_steps(value));
    rate.boundaries = steps;
  } else {
    DLOBD_TRY(figure, not_negative(fmt::format("the learning rate's {}", key), value));
    (key == "gamma" ? rate.gamma : rate.power) = figure;
  }
  return {};
}

}  // namespace

double LearningRate::at(std::uint64_t step) const {
  const auto t = static_cast<double>(step);
  switch (policy) {
    case Policy::fixed: return base;
    case Policy::step: return base * std::pow(gamma, static_cast<double>(step / step_size));
    case Policy::multistep: {
      double passed = 0;
      for (const std::uint64_t boundary : boundaries) passed += boundary <= step ? 1 : 0;
      return base * std::pow(gamma, passed);
    }
    case Policy::inv: return base * std::pow(1 + gamma * t, -power);
  }
  return base;
}

base::Result<LearningRate> LearningRate::parse(std::string_view policy, double base) {
  LearningRate rate;
  if (!std::isfinite(base) || base < 0) {
    return refuse(
        fmt::format("the learning rate must be a finite number that is not negative: {}", base));
  }
  rate.base = base;

  const std::size_t colon = policy.find(':');
  const std::string name(policy.substr(0, colon));
  const auto& names = policy_names();
  bool known = false;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] != name) continue;
    rate.policy = static_cast<Policy>(i);
    known = true;
  }
  if (!known) {
    return refuse(
        fmt::format("unknown learning rate policy, {}: {}", base::suggestion(name, names), name));
  }
  if (rate.policy == Policy::inv) rate.gamma = 1e-4;

  const std::vector<std::string> keys = keys_of(rate.policy);
  std::map<std::string, bool> given;
  if (colon != std::string_view::npos) {
    for (const std::string_view part : split(policy.substr(colon + 1), ',')) {
      const std::size_t equals = part.find('=');
      const std::string key(part.substr(0, equals));
      bool takes = false;
      for (const std::string& each : keys) takes = takes || each == key;
      if (!takes || equals == std::string_view::npos) {
        return refuse(fmt::format(
            "the learning rate policy {} takes {}: {}", name,
            keys.empty() ? "no values" : fmt::format("{}=... and {}=...", keys[0], keys[1]), part));
      }
      DLOBD_TRY_VOID(accepted, set(rate, key, part.substr(equals + 1)));
      given[key] = true;
    }
  }
  if (rate.policy == Policy::step && !given["size"]) {
    return refuse("the learning rate policy step needs a size, as in step:gamma=0.1,size=1000");
  }
  if (rate.policy == Policy::multistep && !given["at"]) {
    return refuse(
        "the learning rate policy multistep needs steps, as in multistep:gamma=0.1,at=1000/2000");
  }
  return rate;
}

std::string LearningRate::text() const {
  switch (policy) {
    case Policy::fixed: return "fixed";
    case Policy::step: return fmt::format("step:gamma={},size={}", gamma, step_size);
    case Policy::multistep:
      return fmt::format("multistep:gamma={},at={}", gamma, fmt::join(boundaries, "/"));
    case Policy::inv: return fmt::format("inv:gamma={},power={}", gamma, power);
  }
  return "fixed";
}

}  // namespace dlobd::exchange
