// CHECK: for what only a bug in this program can cause. It prints the condition, the place and the
// message, and aborts. What the outside world can cause is a base::Result instead.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace dlobd::base {

[[noreturn]] void check_failed(std::string_view condition, std::string_view file, int line,
                               std::string_view message);

}  // namespace dlobd::base

#define CHECK(condition, ...)                                                                \
  do {                                                                                       \
    if (!(condition)) [[unlikely]]                                                           \
      ::dlobd::base::check_failed(#condition, __FILE__, __LINE__, fmt::format(__VA_ARGS__)); \
  } while (false)
