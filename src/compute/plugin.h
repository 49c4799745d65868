// Loads libtorch into a process that is linked without it: chooses and loads the BLAS, then the
// plug-in, which lies beside the program. A launcher that never calls this starts fast and stays
// small. Call before other threads start, once a process. Nothing is ever unloaded.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "compute/blas.h"
#include "compute/processor.h"
#include "compute/torch_model.h"

namespace dlobd::compute {

struct PluginOptions {
  std::string folder;  // of the program
  Processor processor;
  BlasOptions blas;  // its `threads` are the threads of one rank
};

// What is in use, for the RunRecord and `doctor`. Empty text: the build has none.
struct TorchReport {
  std::string libtorch;
  std::string onednn;
  std::string cuda;
  std::string cudnn;
  std::string gpu;  // name of the first
  int gpus = 0;
  BlasReport blas;
};

struct TorchPlugin {
  TorchPluginInterface* interface = nullptr;  // lives as long as the process
  Processor processor;
  int threads = 1;
  TorchReport report;
};

// unavailable: built without libtorch, no GPU where one was asked for, a libtorch without oneDNN.
// Else the errors of load_blas().
base::Result<TorchPlugin> load_torch(const PluginOptions& options);

// The folder of the running program.
std::string program_folder();

}  // namespace dlobd::compute
