#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace dlobd::base {

void check_failed(std::string_view condition, std::string_view file, int line,
                  std::string_view message) {
  fmt::print(stderr, "bug: {} does not hold at {}:{}: {}\n", condition, file, line, message);
  std::fflush(stderr);
  std::abort();
}

}  // namespace dlobd::base
