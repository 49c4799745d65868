#include "doctor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "complaint.h"
#include "doctor_checks.h"

namespace dlobd::app {
namespace {

constexpr std::array<const char*, 3> kNames = {"ok", "note", "missing"};
constexpr std::array<const char*, 3> kColours = {"\x1b[32m", "\x1b[33m", "\x1b[31m"};

const char* name(Finding finding) {
  return kNames[static_cast<std::size_t>(finding)];
}

std::optional<std::string> variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

void print_table(const std::vector<Capability>& all) {
  const bool colour = isatty(STDOUT_FILENO) == 1 && !variable("NO_COLOR");
  std::string text;
  std::size_t widest = 0;
  for (const Capability& one : all) widest = std::max(widest, one.name.size());
  std::size_t missing = 0;
  for (const Capability& one : all) {
    const auto at = static_cast<std::size_t>(one.finding);
    text += fmt::format("{}{:<7}{}  {:<{}}  {}\n", colour ? kColours[at] : "", name(one.finding),
                        colour ? "\x1b[0m" : "", one.name, widest, one.found);
    if (!one.remedy.empty()) {
      text += fmt::format("{:>{}}-> {}\n", "", widest + 11, one.remedy);
    }
    if (one.finding == Finding::missing) ++missing;
  }
  text +=
      fmt::format("\n{} of {} are there; what is missing is needed only where a run asks for it\n",
                  all.size() - missing, all.size());
  show(stdout, text);
}

void print_json(const std::vector<Capability>& all) {
  nlohmann::json list = nlohmann::json::array();
  for (const Capability& one : all) {
    list.push_back({{"name", one.name},
                    {"finding", name(one.finding)},
                    {"found", one.found},
                    {"remedy", one.remedy.empty() ? nlohmann::json() : nlohmann::json(one.remedy)},
                    {"details", one.details}});
  }
  const nlohmann::json out = {{"capabilities", std::move(list)}};
  show(stdout, out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace

int doctor(bool json) {
  std::vector<Capability> all = check_hardware(variable);
  for (auto check : {check_compute, check_big_data}) {
    auto more = check(variable);
    std::move(more.begin(), more.end(), std::back_inserter(all));
  }
  if (json) {
    print_json(all);
  } else {
    print_table(all);
  }
  return 0;
}

void add_doctor(CLI::App& app, int& status) {
  CLI::App* verb =
      app.add_subcommand("doctor", "Say what this host can do, and what would bring the rest");
  // Outlives this call: the parser keeps a reference to it.
  auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "Print JSON instead of a table");
  verb->footer("Examples:\n  dlobd doctor\n  dlobd doctor --json");
  verb->callback([&status, json] { status = doctor(*json); });
}

}  // namespace dlobd::app
