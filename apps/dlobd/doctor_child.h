// Work in a child process, so that a broken library or a program that hangs cannot harm this one.
// Call while this process has one thread. Blocks, at most for the time-out; the child is gone
// afterwards.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace dlobd::app {

// The text that `work` returns in a child. unavailable: the child crashed, or did not end in time.
base::Result<std::string> in_child(const std::function<std::string()>& work,
                                   base::Duration timeout);

// What a program prints (both streams together). unavailable: it cannot be run, fails, or hangs.
base::Result<std::string> output_of(const std::vector<std::string>& command,
                                    base::Duration timeout);

}  // namespace dlobd::app
