#include "compute/processor.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/nearest.h"

namespace dlobd::compute {
namespace {

constexpr std::string_view kProfile = "profile:";

const std::vector<std::pair<std::string, Processor::Kind>>& names() {
  static const std::vector<std::pair<std::string, Processor::Kind>> all = {
      {"cpu", Processor::Kind::cpu},
      {"cpu+onednn", Processor::Kind::cpu_onednn},
      {"gpu", Processor::Kind::gpu},
      {"gpu+cudnn", Processor::Kind::gpu_cudnn},
      {"reference", Processor::Kind::reference},
  };
  return all;
}

}  // namespace

base::Result<Processor> Processor::parse(std::string_view text) {
  Processor processor;
  if (text.starts_with(kProfile)) {
    processor.kind = Kind::profile;
    processor.profile_path = text.substr(kProfile.size());
    if (!processor.profile_path.empty()) return processor;
    return base::fail(base::ErrorKind::invalid_argument,
                      "a profile needs its file, as in profile:lenet_cpu.json");
  }
  std::vector<std::string> known;
  for (const auto& [name, kind] : names()) {
    if (text == name) {
      processor.kind = kind;
      return processor;
    }
    known.push_back(name);
  }
  known.emplace_back("profile:FILE");
  return base::fail(base::ErrorKind::invalid_argument,
                    fmt::format("no such processor: {} ({})", text, base::suggestion(text, known)));
}

std::string Processor::text() const {
  if (kind == Kind::profile) return std::string(kProfile) + profile_path;
  for (const auto& [name, named_kind] : names()) {
    if (kind == named_kind) return name;
  }
  return {};
}

}  // namespace dlobd::compute
