// A replica that takes the time a profile states and computes nothing: it awaits the loop's clock,
// virtual or real, and occupies no core. Gradients are zero and the loss is 0. Time grows linearly
// with the batch. A profile is a JSON object:
//
//   {"name": "comet_cpu", "model": "lenet", "batch_size": 64, "forward_ns": 9000000,
//    "backward_ns": {"ip2.bias": 10000, "ip2.weight": 120000, ...: every view of the model},
//    "source": "measured here", "grade": "measured"}
//
// backward_ns is what passes between one gradient's readiness and the next, in backward order.
// Times are integers; "source" and "grade" are optional text; other keys are ignored.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/loop.h"
#include "base/result.h"
#include "compute/model.h"
#include "compute/replica.h"

namespace dlobd::compute {

struct Profile {
  std::string name;
  std::string model;
  std::int64_t batch_size = 0;
  std::int64_t forward_ns = 0;
  std::map<std::string, std::int64_t> backward_ns;
  std::string source;
  std::string grade;
};

// `origin` names the text in errors: one line, corrupt_data, saying which key is off.
base::Result<Profile> parse_profile(std::string_view text, const std::string& origin);
// not_found or io_error for the file.
base::Result<Profile> read_profile(const std::string& path);

// invalid_argument where the profile is of another model, or lacks a view of it or has one too
// many.
base::Result<std::unique_ptr<Replica>> make_profile(base::Loop& loop, const Profile& profile,
                                                    const Model& model,
                                                    Backing backing = Backing::memory);

}  // namespace dlobd::compute
