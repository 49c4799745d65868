#include "launch_environment.h"

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "launch_claims.h"
#include "slurm_nodes.h"

namespace dlobd::app {

using base::ErrorKind;
using base::Result;

namespace {

constexpr const char* kLoopback = "127.0.0.1";

std::string joined(std::string_view host, int port) {
  const bool is_v6 = host.find(':') != std::string_view::npos && host.front() != '[';
  return is_v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

const std::string& first_set(const Environment& environment,
                             std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const auto& value = value_of(environment, name); !value.empty()) return value;
  }
  return value_of(environment, "");
}

std::string slurm_job(const Environment& environment) {
  const std::string& job = first_set(environment, {"SLURM_JOB_ID", "SLURM_JOBID"});
  if (job.empty()) return {};
  return fmt::format("slurm {}.{}", job, first_set(environment, {"SLURM_STEP_ID", "SLURM_STEPID"}));
}

// The node on which Slurm and what runs inside its jobs starts rank 0, unless told otherwise: rank
// 0 sees whether that is so.
Result<std::string> slurm_host(const Environment& environment, int rank,
                               std::initializer_list<const char*> names) {
  const std::string& nodes = first_set(environment, names);
  if (nodes.empty()) return std::string();
  auto first = first_node(nodes);
  if (!first) return base::fail(first.error().while_doing("reading Slurm's environment"));
  const std::string& here = value_of(environment, "SLURMD_NODENAME");
  if (rank == 0 && !here.empty() && here != *first) {
    return base::fail(ErrorKind::invalid_argument,
                      fmt::format("rank 0 does not run on the first node of the job: give "
                                  "--rendezvous {}:PORT to all ranks: {} is the first node",
                                  here, *first));
  }
  return first;
}

bool on_one_host(const Launch& launch) {
  return launch.local_size && *launch.local_size == launch.world_size;
}

Result<void> complete_slurm(const Environment& environment, Launch& launch) {
  const std::string& tasks = value_of(environment, "SLURM_STEP_TASKS_PER_NODE");
  DLOBD_TRY(node, number_of(environment, "SLURM_NODEID"));
  if (!tasks.empty() && node) {
    auto here = tasks_on_node(tasks, static_cast<std::uint64_t>(*node));
    if (!here) return base::fail(here.error().while_doing("reading Slurm's environment"));
    launch.local_size = *here;
  }
  launch.job = slurm_job(environment);
  std::string host = kLoopback;
  if (!on_one_host(launch)) {
    DLOBD_TRY(first, slurm_host(environment, launch.rank,
                                {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}));
    host = first;
  }
  if (!host.empty() && !launch.job.empty()) {
    launch.rendezvous = joined(host, port_of_job(launch.job));
  }
  return {};
}

// MPI's launchers keep the host of rank 0 to themselves: what they say of their own host says
// nothing of it.
Result<void> complete_mpi(const Environment& environment, const std::string& job, Launch& launch) {
  launch.job = job;
  std::string host = kLoopback;
  DLOBD_TRY(port, number_of(environment, "MASTER_PORT"));
  if (!on_one_host(launch)) {
    host = value_of(environment, "MASTER_ADDR");
    if (host.empty()) {
      DLOBD_TRY(first,
                slurm_host(environment, launch.rank, {"SLURM_JOB_NODELIST", "SLURM_NODELIST"}));
      host = first;
    } else if (port) {
      launch.rendezvous = joined(host, *port);
      return {};
    }
  }
  if (!host.empty() && !job.empty()) launch.rendezvous = joined(host, port_of_job(job));
  return {};
}

std::string open_mpi_job(const Environment& environment) {
  const std::string& name = first_set(environment, {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"});
  if (name.empty()) return {};
  // The key is drawn for each job, for networks on which ranks must agree upon one.
  return fmt::format("openmpi {} {}", name,
                     value_of(environment, "OMPI_MCA_orte_precondition_transports"));
}

// PMI itself names the job only to those that speak it. Its server is one process on each host.
std::string pmi_job(const Environment& environment, const Launch& launch,
                    std::optional<int> pmi_server) {
  std::string job = slurm_job(environment);
  for (const char* name : {"PBS_JOBID", "LSB_JOBID", "PMI_JOBID"}) {
    job += value_of(environment, name);
  }
  if (on_one_host(launch)) {
    job += fmt::format(" {}", value_of(environment, "PMI_PORT"));
    if (pmi_server) job += fmt::format(" {}", *pmi_server);
  }
  return job.find_first_not_of(' ') == std::string::npos ? std::string() : "pmi " + job;
}

Result<void> complete_torchrun(const Environment& environment, Launch& launch) {
  const std::string& run = value_of(environment, "TORCHELASTIC_RUN_ID");
  if (run.empty()) launch.launcher = "the environment (RANK, WORLD_SIZE)";
  const std::string& address = value_of(environment, "MASTER_ADDR");
  DLOBD_TRY(port, number_of(environment, "MASTER_PORT"));
  if (!port || address.empty()) return {};
  if (*port < 1 || *port > 65535) {
    return base::fail(ErrorKind::invalid_argument,
                      fmt::format("no port in the environment: MASTER_PORT={}", *port));
  }
  // torchrun's own store listens at MASTER_PORT, unless it leaves that to rank 0.
  const bool taken = value_of(environment, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  const int own = !taken ? *port : *port < 65535 ? *port + 1 : *port - 1;
  launch.rendezvous = joined(on_one_host(launch) ? kLoopback : address, own);
  launch.job = fmt::format("torchrun {} {}:{}", run, address, *port);
  return {};
}

const char* name_of(Launcher launcher) {
  switch (launcher) {
    case Launcher::slurm: return "srun";
    case Launcher::open_mpi: return "mpirun (Open MPI)";
    case Launcher::pmi: return "mpiexec (PMI)";
    case Launcher::torchrun: return "torchrun";
  }
  return "";
}

// Where the ranks meet, and what tells the job from others.
Result<void> complete(const Environment& environment, Launcher launcher,
                      std::optional<int> pmi_server, Launch& launch) {
  switch (launcher) {
    case Launcher::slurm: return complete_slurm(environment, launch);
    case Launcher::open_mpi: return complete_mpi(environment, open_mpi_job(environment), launch);
    case Launcher::pmi:
      return complete_mpi(environment, pmi_job(environment, launch, pmi_server), launch);
    case Launcher::torchrun: return complete_torchrun(environment, launch);
  }
  return {};
}

std::uint64_t hash(std::string_view text) {  // FNV-1a
  std::uint64_t value = 0xcbf29ce484222325;
  for (const char c : text) {
    value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return value ^ (value >> 32);
}

}  // namespace

Environment environment_of(const char* const* variables) {
  Environment environment;
  for (; *variables != nullptr; ++variables) {
    const std::string_view entry(*variables);
    const auto equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    environment.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return environment;
}

const std::string& value_of(const Environment& environment, std::string_view name) {
  static const std::string nothing;
  const auto found = environment.find(name);
  return found == environment.end() ? nothing : found->second;
}

Result<std::optional<Launch>> launch_from(const Environment& environment,
                                          std::optional<int> pmi_server) {
  DLOBD_TRY(claim, innermost_claim(environment));
  if (!claim) {
    // In a shell of a Slurm job it is the shell's own.
    const auto& rank = value_of(environment, "PMIX_RANK");
    if (!rank.empty() && slurm_job(environment).empty()) {
      return base::fail(ErrorKind::invalid_argument,
                        fmt::format("PMIx says which rank this is and not of how many: give "
                                    "--rank, --world-size and --rendezvous: PMIX_RANK={:.40}",
                                    rank));
    }
    return std::nullopt;
  }
  Launch launch;
  launch.launcher = name_of(claim->launcher);
  launch.rank = claim->rank;
  launch.world_size = claim->size;
  launch.local_rank = claim->local_rank;
  launch.local_size = claim->local_size;
  if (launch.world_size == 1) return launch;
  const auto completed = complete(environment, claim->launcher, pmi_server, launch);
  if (!completed) return base::fail(completed.error());
  return launch;
}

int port_of_job(std::string_view job) {
  constexpr int kFirst = 20000;
  constexpr int kPorts = 12000;
  return kFirst + static_cast<int>(hash(job) % kPorts);
}

std::string token_of_job(std::string_view job, std::string_view rendezvous) {
  return fmt::format("job-{:016x}", hash(fmt::format("{}\n{}", job, rendezvous)));
}

}  // namespace dlobd::app
