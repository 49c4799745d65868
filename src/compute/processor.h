// What computes: the value of --processor.
//   cpu (libtorch, oneDNN off)   cpu+onednn   gpu (cuDNN off)   gpu+cudnn
//   reference (plain C++: models of fully connected layers; no libtorch)
//   profile:FILE (the profile replica; no libtorch)
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace dlobd::compute {

struct Processor {
  enum class Kind { cpu, cpu_onednn, gpu, gpu_cudnn, reference, profile };

  Kind kind = Kind::cpu_onednn;
  std::string profile_path;  // of a profile

  // invalid_argument, with the nearest name.
  static base::Result<Processor> parse(std::string_view text);
  [[nodiscard]] std::string text() const;  // parse() reads it back
  [[nodiscard]] bool is_gpu() const { return kind == Kind::gpu || kind == Kind::gpu_cudnn; }
  [[nodiscard]] bool needs_libtorch() const {
    return kind != Kind::reference && kind != Kind::profile;
  }
  friend bool operator==(const Processor&, const Processor&) = default;
};

}  // namespace dlobd::compute
