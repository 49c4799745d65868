// What the words of `dlobd train` mean together: checked, completed, and every refusal one line.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "base/nearest.h"
#include "cluster/tcp_link.h"
#include "compute/model.h"
#include "compute/plugin.h"
#include "compute/profile.h"
#include "compute/reference.h"
#include "connections.h"
#include "design_text.h"
#include "libfabric_size.h"
#include "link_text.h"
#include "metrics/environment.h"
#include "train_options.h"
#include "training/checkpoint.h"
#include "training/identity.h"
#include "transport/fabric/providers.h"
#include "transport/tcp/interface.h"

namespace dlobd::app {

using base::ErrorKind;
using base::fail;
using base::Result;

namespace {

Result<double> finite(const char* option, double value, double low, double high) {
  if (std::isfinite(value) && value >= low && value <= high) return value;
  return fail(ErrorKind::invalid_argument,
              std::isfinite(high)
                  ? fmt::format("not a number from {:g} to {:g}: {} {}", low, high, option, value)
                  : fmt::format("not a finite number of at least {:g}: {} {}", low, option, value));
}

Result<std::uint64_t> positive(const char* option, std::int64_t value) {
  if (value > 0) return static_cast<std::uint64_t>(value);
  return fail(ErrorKind::invalid_argument, fmt::format("must be at least 1: {} {}", option, value));
}

Result<void> refuse_for(const TrainOptions& o, bool given, const char* option) {
  if (!given) return {};
  return fail(ErrorKind::invalid_argument,
              fmt::format("--network {} takes no {}: leave it out", o.network, option));
}

Result<void> resolve_rdma(const TrainOptions& o, training::Config& config) {
  config.network = training::NetworkKind::rdma;
  const std::string asked = o.provider.value_or("");
  // A wrong number is refused later; here it only must do no harm.
  const auto ranks = std::clamp<std::int64_t>(o.world_size.value_or(o.ranks), 1, 65536);
  size_libfabric(asked, static_cast<int>(ranks) + config.design.servers);
  DLOBD_TRY(provider, transport::fabric::choose(asked));
  config.provider = provider;
  if (o.port < 1 || o.port > 255) {
    return fail(ErrorKind::invalid_argument,
                fmt::format("must be from 1 to 255: --port {}", o.port));
  }
  if (o.gid_index && (*o.gid_index < 0 || *o.gid_index > 65535)) {
    return fail(ErrorKind::invalid_argument,
                fmt::format("must be from 0 to 65535: --gid-index {}", *o.gid_index));
  }
  if (o.gid_index && o.device.empty()) {
    return fail(ErrorKind::invalid_argument,
                "--gid-index counts in the table of a device: add --device NAME");
  }
  return {};
}

Result<void> resolve_network(const TrainOptions& o, training::Config& config) {
  const std::vector<std::string> valid{"tcp", "rdma", "simulated"};
  if (std::find(valid.begin(), valid.end(), o.network) == valid.end()) {
    return fail(ErrorKind::invalid_argument, fmt::format("no such network: {}; {}", o.network,
                                                         base::suggestion(o.network, valid)));
  }
  const bool tcp = o.network == "tcp";
  const bool rdma = o.network == "rdma";
  const bool simulated = o.network == "simulated";
  DLOBD_TRY_VOID(provider, refuse_for(o, !rdma && o.provider.has_value(), "--provider"));
  DLOBD_TRY_VOID(device, refuse_for(o, !rdma && !o.device.empty(), "--device"));
  DLOBD_TRY_VOID(gid, refuse_for(o, !rdma && o.gid_index.has_value(), "--gid-index"));
  DLOBD_TRY_VOID(connections,
                 refuse_for(o, !tcp && o.connections_per_peer != 1, "--connections-per-peer"));
  DLOBD_TRY_VOID(interface, refuse_for(o, simulated && !o.interface.empty(), "--interface"));
  if (o.link && !simulated) {
    return fail(ErrorKind::invalid_argument,
                "--link describes a simulated network: add --network simulated, or leave it out");
  }
  if (simulated) {
    config.network = training::NetworkKind::simulated;
    config.link_text = o.link.value_or(std::string(kDefaultLink));
    DLOBD_TRY(link, parse_link(config.link_text));
    config.link = link;
    return {};
  }
  if (!o.interface.empty()) {
    DLOBD_TRY_VOID(address, transport::tcp::interface_address(o.interface));
  }
  config.interface = o.interface;
  if (rdma) return resolve_rdma(o, config);
  return check_connections_per_peer(o.connections_per_peer);
}

Result<void> resolve_length(const TrainOptions& o, training::Config& config) {
  if (o.epochs && o.steps) {
    return fail(ErrorKind::invalid_argument, "give --epochs or --steps, not both");
  }
  if (o.steps) {
    DLOBD_TRY(steps, positive("--steps", *o.steps));
    config.steps = steps;
  } else {
    DLOBD_TRY(epochs, positive("--epochs", o.epochs.value_or(o.until_accuracy ? 50 : 1)));
    config.epochs = epochs;
  }
  if (o.until_accuracy && config.processor.kind == compute::Processor::Kind::profile) {
    return fail(
        ErrorKind::invalid_argument,
        "a profile computes nothing, so it reaches no accuracy: leave --until-accuracy out");
  }
  if (o.until_accuracy) {
    DLOBD_TRY(target, finite("--until-accuracy", *o.until_accuracy, 0, 1));
    config.until_accuracy = target;
  }
  if (o.evaluate_every < 0) {
    return fail(ErrorKind::invalid_argument,
                fmt::format("must be at least 1: --evaluate-every {}", o.evaluate_every));
  }
  config.evaluate_every = static_cast<std::uint64_t>(o.evaluate_every);
  return {};
}

Result<void> resolve_optimizer(const TrainOptions& o, training::Config& config) {
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  DLOBD_TRY(rate, finite("--learning-rate", o.learning_rate, 0, kNoLimit));
  DLOBD_TRY(policy, exchange::LearningRate::parse(o.lr_policy, rate));
  const auto colon = o.lr_policy.find(':');
  if (colon != std::string::npos) {
    DLOBD_TRY_VOID(once, refuse_repeated("--lr-policy", o.lr_policy.substr(colon + 1)));
  }
  config.optimizer.learning_rate = policy;
  DLOBD_TRY(kind, exchange::parse_optimizer(o.optimizer));
  config.optimizer.kind = kind;
  if (kind == exchange::OptimizerKind::adagrad) {
    if (o.momentum || o.weight_decay) {
      return fail(ErrorKind::invalid_argument,
                  fmt::format("--optimizer adagrad has no {}: leave it out",
                              o.momentum ? "--momentum" : "--weight-decay"));
    }
    config.optimizer.momentum = 0;
    config.optimizer.weight_decay = 0;
    return {};
  }
  DLOBD_TRY(momentum, finite("--momentum", o.momentum.value_or(0.9), 0, 1));
  DLOBD_TRY(decay, finite("--weight-decay", o.weight_decay.value_or(5e-4), 0, kNoLimit));
  config.optimizer.momentum = momentum;
  config.optimizer.weight_decay = decay;
  return {};
}

// That this process may run on: a launcher of clusters may have bound it to some.
double allowed_cpus() {
  cpu_set_t set;
  const bool known = sched_getaffinity(0, sizeof set, &set) == 0;
  return known ? CPU_COUNT(&set) : std::numeric_limits<double>::infinity();
}

// What only libtorch heeds.
Result<void> refuse_unused(const compute::Processor& processor, const char* option) {
  if (processor.needs_libtorch()) return {};
  return fail(
      ErrorKind::invalid_argument,
      fmt::format("--processor {} makes no use of {}: leave it out", processor.text(), option));
}

Result<void> resolve_processor(const TrainOptions& o, training::Config& config) {
  DLOBD_TRY(processor, compute::Processor::parse(o.processor));
  config.processor = processor;
  config.mkl_folder = o.mkl_folder;
  if (o.threads < 0 || o.threads > 4096) {
    return fail(ErrorKind::invalid_argument,
                fmt::format("must be from 0 to 4096: --threads {}", o.threads));
  }
  if (o.threads > 0) {
    DLOBD_TRY_VOID(used, refuse_unused(processor, "--threads"));
  }
  if (!o.mkl_folder.empty()) {
    DLOBD_TRY_VOID(used, refuse_unused(processor, "--mkl-folder"));
  }
  const auto environment = metrics::read_environment();
  const double cpus =
      std::min(environment.quota.value_or(1e9), static_cast<double>(environment.cores.value_or(1)));
  // A launcher of clusters may have bound this rank to CPUs of its own; those of ours share theirs.
  const bool placed = o.rank && !o.launched;
  const double share = placed ? std::min(cpus / o.ranks_here, allowed_cpus())
                              : std::min(cpus, allowed_cpus()) / config.ranks;
  config.threads =
      o.threads > 0 ? static_cast<int>(o.threads) : std::max(1, static_cast<int>(share));
  if (o.blas) {
    DLOBD_TRY(blas, compute::parse_blas(*o.blas));
    DLOBD_TRY_VOID(used, refuse_unused(processor, "--blas"));
    DLOBD_TRY_VOID(found, compute::find_blas(blas, o.mkl_folder));
    config.blas = blas;
  }
  if (processor.is_gpu() && !environment.gpu) {
    return fail(ErrorKind::unavailable,
                fmt::format("there is no GPU on this host for --processor {}: {}; "
                            "`dlobd doctor` says what there is",
                            o.processor, environment.unknown.at("gpu")));
  }
  if (processor.needs_libtorch()) {
    const auto plugin =
        std::filesystem::path(compute::program_folder()) / compute::kTorchPluginFile;
    if (!std::filesystem::exists(plugin)) {
      return fail(
          ErrorKind::unavailable,
          fmt::format("this build has no libtorch for --processor {}: {} is not there; build "
                      "with DLOBD_TORCH=ON",
                      o.processor, plugin.string()));
    }
    // A rank would die of what it traps on, or find out by itself, too late to be refused.
    const char* preset = std::getenv("OPENBLAS_CORETYPE");
    if (preset != nullptr && !o.launched) {
      compute::BlasOptions blas;
      blas.blas = config.blas;
      blas.preset_kernel = preset;
      DLOBD_TRY_VOID(works, compute::check_preset_kernel(blas));
    }
  }
  return {};
}

Result<void> resolve_placement(const TrainOptions& o) {
  const int given = o.rank.has_value() + o.world_size.has_value() + !o.rendezvous.empty();
  if (given != 0 && given != 3) {
    return fail(ErrorKind::invalid_argument,
                "--rank, --world-size and --rendezvous go together: give all three or none");
  }
  if (!o.rank) return {};
  const std::int64_t size = *o.world_size;
  if (*o.rank < 0 || *o.rank >= size) {
    return fail(ErrorKind::invalid_argument,
                fmt::format("not a rank of a job of {}: --rank {}", size, *o.rank));
  }
  DLOBD_TRY(rendezvous, cluster::parse_host_port(o.rendezvous));
  if (rendezvous.port == "0") {
    return fail(ErrorKind::invalid_argument,
                fmt::format("the ranks cannot guess a port: give one, not 0: --rendezvous {}",
                            o.rendezvous));
  }
  if (o.network == "simulated") {
    return fail(ErrorKind::invalid_argument,
                "--network simulated runs all ranks in one process: leave --rank out");
  }
  return {};
}

// Steps and samples of the whole run must be countable.
Result<void> check_length(const training::Config& config, std::uint64_t records) {
  const auto shards = batches::shard_sizes(records, config.ranks);
  DLOBD_TRY(plan, batches::agree_on_steps(shards, config.batch.local, config.uneven));
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::uint64_t each = config.batch.global * (config.steps ? 1 : plan.steps);
  const std::uint64_t wanted = config.steps ? *config.steps : config.epochs.value_or(1);
  if (wanted <= kMost / each) return {};
  return fail(ErrorKind::invalid_argument,
              fmt::format("more samples than can be counted: {} {}, at most {}",
                          config.steps ? "--steps" : "--epochs", wanted, kMost / each));
}

Result<void> resolve_resume(const TrainOptions& o, storage::Store& store,
                            const training::Config& config, std::uint64_t records) {
  if (o.resume.empty()) return {};
  DLOBD_TRY(saved, training::load(store, o.resume));
  DLOBD_TRY_VOID(same, training::check_same_run(saved, training::identity_of(config), o.resume));
  const auto shards = batches::shard_sizes(records, config.ranks);
  DLOBD_TRY(plan, batches::agree_on_steps(shards, config.batch.local, config.uneven));
  const std::uint64_t last = config.steps ? *config.steps : *config.epochs * plan.steps;
  if (saved.step >= last) {
    return fail(ErrorKind::invalid_argument,
                fmt::format("the checkpoint is at the end of this run already, raise --steps or "
                            "--epochs: {}: step {} of {}",
                            o.resume, saved.step, last));
  }
  return {};
}

}  // namespace

Result<Resolved> resolve(const TrainOptions& o, storage::Store& store) {
  training::Config config;
  DLOBD_TRY(design, parse_design(o.design, o.network == "rdma"));
  config.design = design;
  DLOBD_TRY_VOID(network, resolve_network(o, config));
  DLOBD_TRY_VOID(placement, resolve_placement(o));
  // --world-size counts the servers of the design too.
  const std::int64_t ranks = o.world_size ? *o.world_size - design.servers : o.ranks;
  if (o.world_size && o.ranks != 1 && o.ranks != ranks) {
    return fail(
        ErrorKind::invalid_argument,
        fmt::format("--ranks {} and --world-size {} contradict each other: {} of role {} are "
                    "counted in the world size",
                    o.ranks, *o.world_size, design.servers,
                    design.servers > 0 ? design.server_role : "server"));
  }
  if (ranks < 1 || ranks > 65536) {
    return fail(ErrorKind::invalid_argument,
                o.world_size ? fmt::format("leaves no worker beside {} of role {}: --world-size {}",
                                           design.servers, design.server_role, *o.world_size)
                             : fmt::format("must be from 1 to 65536: --ranks {}", ranks));
  }
  config.ranks = static_cast<int>(ranks);
  DLOBD_TRY_VOID(sensible, stacks::check_workers(design, config.ranks));
  DLOBD_TRY_VOID(processor, resolve_processor(o, config));
  DLOBD_TRY_VOID(length, resolve_length(o, config));
  DLOBD_TRY_VOID(optimizer, resolve_optimizer(o, config));
  DLOBD_TRY(uneven, batches::parse_uneven(o.uneven));
  config.uneven = uneven;
  DLOBD_TRY(timeout, finite("--peer-timeout", o.peer_timeout, 0.1, 86400));
  config.peer_timeout =
      std::chrono::duration_cast<base::Duration>(std::chrono::duration<double>(timeout));
  config.link.peer_timeout = config.peer_timeout;
  config.seed = o.seed;
  config.checkpoint_folder = o.checkpoint;
  config.resume = o.resume;
  config.out = o.out;
  config.data = o.data;
  config.model = o.model;

  DLOBD_TRY(dataset, records::open_dataset(store, o.data));
  config.data_digest = dataset.digest();
  DLOBD_TRY(model, compute::find_model(o.model, dataset.shape(), dataset.classes()));
  const bool none_given = !o.local_batch_size && !o.global_batch_size;
  DLOBD_TRY(batch, batches::batch_sizes(
                       design.batch_rule,
                       none_given ? std::optional<std::int64_t>(64) : o.local_batch_size,
                       o.global_batch_size, config.ranks, dataset.count(records::Part::train)));
  config.batch = batch;
  DLOBD_TRY_VOID(countable, check_length(config, dataset.count(records::Part::train)));
  if (config.processor.kind == compute::Processor::Kind::reference) {
    DLOBD_TRY_VOID(fits, compute::check_reference(model));
  }
  if (config.processor.kind == compute::Processor::Kind::profile) {
    DLOBD_TRY(profile, compute::read_profile(config.processor.profile_path));
    base::VirtualLoop loop;
    DLOBD_TRY_VOID(fits, compute::make_profile(loop, profile, model, compute::Backing::phantom));
  }
  DLOBD_TRY_VOID(resume, resolve_resume(o, store, config, dataset.count(records::Part::train)));
  Resolved resolved{std::move(config), std::move(dataset), std::move(model)};
  return resolved;
}

}  // namespace dlobd::app
