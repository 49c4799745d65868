// Everything that decides what a run does, as plain values: what `dlobd train` was asked for,
// checked and completed. All ranks of a job hold the same Config; ranks whose settings differ
// (identity.h) do not join.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "batches/batch_rule.h"
#include "batches/shard.h"
#include "compute/blas.h"
#include "compute/processor.h"
#include "exchange/optimizer.h"
#include "metrics/run_record.h"
#include "stacks/design.h"
#include "transport/simulated/network.h"

namespace dlobd::training {

enum class NetworkKind { tcp, rdma, simulated };

struct Config {
  stacks::Design design;
  NetworkKind network = NetworkKind::tcp;
  std::string provider;                  // network rdma: libfabric's full name: "verbs;ofi_rxm"
  std::string interface;                 // empty: loopback, or the one that leads to the rendezvous
  transport::simulated::LinkModel link;  // network simulated
  std::string link_text;                 // as it was asked for
  compute::Processor processor;
  std::optional<compute::Blas> blas;  // none: the best that is installed
  std::string mkl_folder;             // where libmkl_rt lies; for blas mkl
  int threads = 1;                    // of one rank's computation
  std::string model = "lenet";
  std::string data = "data/mnist";
  std::string data_digest;  // of its content; ranks and checkpoints of other data are refused
  batches::Uneven uneven = batches::Uneven::drop_last;
  int ranks = 1;              // workers
  batches::BatchSizes batch;  // local and global

  // The end: after `epochs` or `steps`; with `until_accuracy` as soon as an evaluation reaches it.
  std::optional<std::uint64_t> epochs;
  std::optional<std::uint64_t> steps;
  std::optional<double> until_accuracy;
  std::uint64_t evaluate_every = 0;  // steps; 0: at the end of each epoch

  exchange::OptimizerSettings optimizer;
  std::uint64_t seed = 1;
  base::Duration peer_timeout = std::chrono::seconds(10);
  std::string checkpoint_folder;  // empty: only when interrupted, beside the records
  std::string resume;             // a checkpoint file; empty: from the start
  std::string out = "runs";

  [[nodiscard]] exchange::Layout layout() const { return design.layout(ranks); }
  // The folder that an interrupted run leaves its checkpoint in.
  [[nodiscard]] std::string checkpoints() const {
    return checkpoint_folder.empty() ? out + "/checkpoints" : checkpoint_folder;
  }
};

std::string_view name(NetworkKind network);
// For people, the stand-in named: "tcp", "rdma(shm)", "simulated".
std::string network_label(const Config& config);

// Why the real stack lacks what the run combines, as stacks::hypothetical() has it.
std::optional<std::string> hypothetical(const Config& config);

// The "config" of a RunRecord.
metrics::RunConfig run_config(const Config& config);

}  // namespace dlobd::training
