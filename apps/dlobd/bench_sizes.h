// Sizes of buffers and messages as users write and read them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace dlobd::app {

// "64KiB", "1724320": bytes, from 1 to 4 GiB, a multiple of `unit`. invalid_argument, naming
// --sizes.
base::Result<std::uint64_t> parse_size(const std::string& text, std::uint64_t unit);
base::Result<std::vector<std::uint64_t>> parse_sizes(const std::vector<std::string>& texts,
                                                     std::uint64_t unit);

// "64 KiB", "1724320 B".
std::string size_text(std::uint64_t bytes);

}  // namespace dlobd::app
