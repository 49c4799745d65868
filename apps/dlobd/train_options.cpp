// The words of `dlobd train` and their help; train_resolve.cpp says what they may be.
#include "train_options.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "missing_values.h"

namespace dlobd::app {

namespace {

// What CLI11 would wrap around to some other number.
std::string whole_number(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return {};
  return fmt::format("not a whole number from 0 to {}: {}",
                     std::numeric_limits<std::uint64_t>::max(), text);
}

// What the parser would show as the largest number there is.
std::string in_range(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc::result_out_of_range ? "out of range: " + text : std::string();
}

}  // namespace

void add_train_options(CLI::App& app, TrainOptions& o) {
  add_design_options(app, o.design);

  app.add_option("--network", o.network,
                 "tcp; rdma, by libfabric; or simulated: virtual time, in one process")
      ->capture_default_str()
      ->type_name("NAME")
      ->group("Network");
  app.add_option(
         "--provider", o.provider,
         "What carries rdma: verbs, efa, psm3, ... (default: this host's real RDMA); shm and "
         "tcp;ofi_rxm are software stand-ins, by name only")
      ->type_name("NAME")
      ->group("Network");
  app.add_option("--device", o.device, "rdma: the device, as libfabric names it (mlx5_0)")
      ->type_name("NAME")
      ->group("Network");
  app.add_option("--port", o.port, "rdma, with --gid-index: the device's port")
      ->capture_default_str()
      ->group("Network");
  app.add_option("--gid-index", o.gid_index, "rdma: the entry of the port's table of GIDs")
      ->group("Network");
  app.add_option("--interface", o.interface,
                 "Network interface of this rank (default: loopback, or the one to the rendezvous)")
      ->type_name("NAME")
      ->group("Network");
  app.add_option("--connections-per-peer", o.connections_per_peer,
                 "TCP connections between each two ranks, 1 to 16; large messages go over all")
      ->capture_default_str()
      ->group("Network");
  app.add_option(
         "--link", o.link,
         "Of --network simulated: latency=20us,bandwidth=1.25GB/s,send=5us,receive=5us,"
         "piece_send=1us,piece_receive=1us,jitter=0us (the default; bandwidth=0: unlimited)")
      ->type_name("KEY=VALUE,...")
      ->group("Network");

  app.add_option("--processor", o.processor,
                 "cpu, cpu+onednn, gpu, gpu+cudnn (unverified on a GPU), reference, profile:FILE")
      ->capture_default_str()
      ->type_name("NAME")
      ->group("Computation");
  app.add_option("--blas", o.blas, "reference, openblas, mkl (default: the best that is installed)")
      ->type_name("NAME")
      ->group("Computation");
  app.add_option("--mkl-folder", o.mkl_folder, "Where libmkl_rt lies (default: the build's)")
      ->type_name("FOLDER")
      ->group("Computation");
  app.add_option(
         "--threads", o.threads,
         "Compute threads of a rank; 0 shares the CPUs among the ranks (with --rank: takes all)")
      ->capture_default_str()
      ->group("Computation");
  app.add_option("--model", o.model, "lenet, softmax")
      ->capture_default_str()
      ->type_name("NAME")
      ->group("Computation");

  app.add_option("--data", o.data, "A folder with the data set (IDX, raw or .gz)")
      ->capture_default_str()
      ->type_name("FOLDER")
      ->group("Data");
  app.add_option("--uneven", o.uneven,
                 "Shards that batches do not divide: drop_last, or pad with samples seen before")
      ->capture_default_str()
      ->type_name("RULE")
      ->group("Data");
  app.add_option("--ranks", o.ranks, "Workers, one device each")
      ->capture_default_str()
      ->group("Data");
  app.add_option("--local-batch-size", o.local_batch_size,
                 "Samples of one rank's step (default: 64)")
      ->group("Data");
  app.add_option("--global-batch-size", o.global_batch_size, "Samples of all ranks' step")
      ->group("Data");

  app.add_option("--epochs", o.epochs, "Passes over the data (default: 1)")->group("Length");
  app.add_option("--steps", o.steps, "Optimizer updates, instead of --epochs")->group("Length");
  app.add_option(
         "--until-accuracy", o.until_accuracy,
         "Stop as soon as an evaluation reaches it, 0 to 1; --epochs (default 50) is the limit")
      ->group("Length");
  app.add_option("--evaluate-every", o.evaluate_every,
                 "Evaluate each so many steps (default: at the end of each epoch)")
      ->group("Length");

  app.add_option("--learning-rate", o.learning_rate, "Base rate")
      ->capture_default_str()
      ->group("Optimizer");
  app.add_option("--lr-policy", o.lr_policy,
                 "fixed | step:gamma=0.1,size=1000 | multistep:gamma=0.1,at=1000/2000 | "
                 "inv:gamma=1e-4,power=0.75")
      ->capture_default_str()
      ->type_name("POLICY")
      ->group("Optimizer");
  app.add_option("--optimizer", o.optimizer,
                 "sgd, or adagrad (TensorFlow's: sums of squares start at 0.1)")
      ->capture_default_str()
      ->type_name("NAME")
      ->group("Optimizer");
  app.add_option("--momentum", o.momentum,
                 "Of sgd; Caffe's: the rate is inside its buffer (default: 0.9)")
      ->group("Optimizer");
  app.add_option("--weight-decay", o.weight_decay,
                 "Of sgd; L2, of every parameter (default: 0.0005)")
      ->group("Optimizer");
  app.add_option("--seed", o.seed, "Of weights, order of samples and simulated delays")
      ->capture_default_str()
      ->check(whole_number)
      ->group("Optimizer");

  app.add_option("--peer-timeout", o.peer_timeout, "Seconds of silence after which a rank is lost")
      ->capture_default_str()
      ->group("Run");
  app.add_option("--checkpoint", o.checkpoint,
                 "Folder for a checkpoint at each evaluation (default: only when interrupted, in "
                 "OUT/checkpoints)")
      ->type_name("FOLDER")
      ->group("Run");
  app.add_option("--resume", o.resume, "Go on from this checkpoint file")
      ->type_name("FILE")
      ->group("Run");
  app.add_option("--out", o.out, "Folder of the run records")
      ->capture_default_str()
      ->type_name("FOLDER")
      ->group("Run");
  app.add_flag("--json", o.json, "Print the record instead of lines for people")->group("Run");
  app.add_flag("--verbose", o.verbose, "Show each rank's output behind its number")->group("Run");

  app.add_option("--rank", o.rank, "This process is one rank; somebody else starts the others")
      ->group("Cluster");
  app.add_option("--world-size", o.world_size, "All ranks of the job")->group("Cluster");
  app.add_option("--rendezvous", o.rendezvous,
                 "HOST:PORT where rank 0 waits; all ranks have the same secret in DLOBD_JOB_TOKEN")
      ->type_name("HOST:PORT")
      ->group("Cluster");
  app.add_option("--launcher", o.launcher,
                 "auto: srun, mpirun, mpiexec and torchrun give what is not said here; none: they "
                 "do not")
      ->capture_default_str()
      ->type_name("NAME")
      ->group("Cluster");
  app.add_flag("--launched", o.launched)->group("");  // hidden: set by our launcher only

  refuse_missing_values(app);
  for (CLI::Option* option : app.get_options()) {
    if (option->get_type_name() == "INT") option->check(in_range);
  }
  app.footer(R"(Examples:
  Two ranks on this machine, one epoch of MNIST through CaffeOnSpark's design:
    dlobd train --stack caffeonspark --model lenet --data data/mnist --ranks 2 --local-batch-size 32
  The same with all of its defects repaired but one:
    dlobd train --stack caffeonspark --behaviour fixed --defect optimizer_full=faithful --ranks 2
  Eight ranks over a simulated network, in virtual time:
    dlobd train --stack allreduce --network simulated --link latency=50us,bandwidth=1.25GB/s --ranks 8
  Until 98.5 % of the test set is right, with checkpoints:
    dlobd train --stack allreduce --until-accuracy 0.985 --evaluate-every 200 --checkpoint checkpoints
  One rank of two, started by hand on two hosts:
    DLOBD_JOB_TOKEN=secret dlobd train --stack allreduce --rank 0 --world-size 2 --rendezvous node1:7000
  Four ranks, started by a cluster's launcher:
    mpirun -n 4 dlobd train --stack allreduce
    srun -n 4 dlobd train --stack allreduce

Exit status: 0 done; 1 failed or target missed; 2 refused before ranks started; 130 interrupted.)");
}

}  // namespace dlobd::app
