// Which designs `dlobd bench training` runs: every chosen stack with every chosen behaviour that it
// has, over every chosen network. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "bench_network.h"

namespace dlobd::app {

struct BenchStack {
  std::string name;
  std::vector<std::string> behaviours;  // none: it takes no behaviour
  bool lacks_rdma = false;              // the real stack does not run over RDMA on a CPU
};
// All of this program's.
std::vector<BenchStack> bench_stacks();

struct BenchDesign {
  std::string name;   // "caffeonspark_fixed", "bigdl_improved_rdma_shm"
  std::string title;  // "caffeonspark fixed", "bigdl improved, rdma(shm), software stand-in"
  std::vector<std::string> words;  // of `dlobd train`
};

struct DesignChoices {
  std::vector<std::string> stacks{"allreduce", "caffeonspark"};
  std::vector<std::string> behaviours{"faithful", "fixed"};
  std::vector<std::string> networks{"tcp"};  // by BenchNetwork::name()
};

// Each list may be {"all"}. invalid_argument for a name that there is not, with the nearest; for a
// choice of which nothing is left.
base::Result<std::vector<BenchDesign>> designs_of(const DesignChoices& choices,
                                                  const std::vector<BenchStack>& stacks,
                                                  const std::vector<BenchNetwork>& networks);

}  // namespace dlobd::app
