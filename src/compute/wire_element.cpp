#include "compute/wire_element.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "base/nearest.h"

namespace dlobd::compute {
namespace {

constexpr WireElement kElements[] = {WireElement::float32, WireElement::float16,
                                     WireElement::bfloat16, WireElement::truncated16};

}  // namespace

std::string_view name(WireElement element) {
  switch (element) {
    case WireElement::float32: return "float32";
    case WireElement::float16: return "float16";
    case WireElement::bfloat16: return "bfloat16";
    case WireElement::truncated16: return "truncated16";
  }
  return "";
}

base::Result<WireElement> parse_wire_element(std::string_view word) {
  std::vector<std::string> names;
  for (const WireElement each : kElements) {
    if (word == name(each)) return each;
    names.emplace_back(name(each));
  }
  return base::fail(
      base::ErrorKind::invalid_argument,
      fmt::format("unknown wire element, {}: {}", base::suggestion(word, names), word));
}

}  // namespace dlobd::compute
