// The options of `dlobd train`: as they are typed, and made into a checked training::Config.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "compute/model.h"
#include "design_text.h"
#include "records/dataset.h"
#include "storage/store.h"
#include "training/config.h"

namespace dlobd::app {

struct TrainOptions {
  DesignWords design;
  std::string network = "tcp";
  std::optional<std::string> provider;
  std::string interface;
  std::string device;
  std::int64_t port = 1;
  std::optional<std::int64_t> gid_index;
  std::int64_t connections_per_peer = 1;
  std::optional<std::string> link;
  std::string processor = "cpu+onednn";
  std::optional<std::string> blas;
  std::string mkl_folder;
  std::int64_t threads = 0;  // 0: share the CPUs among the ranks
  std::string model = "lenet";
  std::string data = "data/mnist";
  std::string uneven = "drop_last";
  std::int64_t ranks = 1;
  std::optional<std::int64_t> local_batch_size;
  std::optional<std::int64_t> global_batch_size;
  std::int64_t evaluate_every = 0;
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> steps;
  std::optional<double> until_accuracy;
  double learning_rate = 0.01;
  std::string lr_policy = "fixed";
  std::string optimizer = "sgd";
  std::optional<double> momentum;      // of sgd; else 0.9
  std::optional<double> weight_decay;  // of sgd; else 5e-4
  std::uint64_t seed = 1;
  double peer_timeout = 10;
  std::string checkpoint;
  std::string resume;
  std::string out = "runs";
  bool json = false;
  bool verbose = false;

  // One rank of a job that somebody else starts.
  std::string launcher = "auto";
  std::optional<std::int64_t> rank;
  std::optional<std::int64_t> world_size;
  std::string rendezvous;
  // Of a job that a cluster's launcher has started (train_placement.h).
  std::string rendezvous_by;  // the launcher whose environment gave it; empty: the user
  int ranks_here = 1;         // that share this host with this one, itself included
  std::string token;          // where DLOBD_JOB_TOKEN has none
  bool launched = false;      // by our own launcher: descriptors are inherited
};

// Declares the options of `train` on its subcommand.
void add_train_options(CLI::App& app, TrainOptions& options);

// Checks all that can be checked before ranks start, against this host and the data. The dataset is
// opened for it and given back. Errors are one line each; nothing is left behind.
struct Resolved {
  training::Config config;
  records::Dataset dataset;
  compute::Model model;
};
base::Result<Resolved> resolve(const TrainOptions& options, storage::Store& store);

}  // namespace dlobd::app
