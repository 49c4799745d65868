#include "launch_claims.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <string>

namespace dlobd::app {

using base::ErrorKind;
using base::Result;

namespace {

// Where a launcher puts its numbers; of two names the first that is set counts.
struct Names {
  Launcher launcher;
  const char* rank;
  const char* size;
  std::array<const char*, 2> local_rank;
  std::array<const char*, 2> local_size;
};
constexpr Names kOpenMpi{Launcher::open_mpi,
                         "OMPI_COMM_WORLD_RANK",
                         "OMPI_COMM_WORLD_SIZE",
                         {"OMPI_COMM_WORLD_LOCAL_RANK", ""},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", ""}};
constexpr Names kPmi{Launcher::pmi,
                     "PMI_RANK",
                     "PMI_SIZE",
                     {"MPI_LOCALRANKID", "PMI_LOCAL_RANK"},
                     {"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"}};
constexpr Names kTorchrun{
    Launcher::torchrun, "RANK", "WORLD_SIZE", {"LOCAL_RANK", ""}, {"LOCAL_WORLD_SIZE", ""}};
// Not SLURM_NTASKS: a batch script has it too, and is no task of a step.
constexpr Names kSlurm{
    Launcher::slurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", {"SLURM_LOCALID", ""}, {"", ""}};

Result<std::optional<int>> first_number(const Environment& environment,
                                        const std::array<const char*, 2>& names) {
  for (const char* name : names) {
    DLOBD_TRY(value, number_of(environment, name));
    if (value) return value;
  }
  return std::nullopt;
}

using MaybeClaim = std::optional<Claim>;

const Names& names_of(Launcher launcher) {
  switch (launcher) {
    case Launcher::slurm: return kSlurm;
    case Launcher::open_mpi: return kOpenMpi;
    case Launcher::pmi: return kPmi;
    case Launcher::torchrun: break;
  }
  return kTorchrun;
}

std::string text_of(const Claim& claim) {
  const Names& names = names_of(claim.launcher);
  return fmt::format("{}={} with {}={}", names.rank, claim.rank, names.size, claim.size);
}

bool agree(const Claim& one, const Claim& other) {
  return one.rank == other.rank && one.size == other.size;
}

base::Failure contradiction(const Claim& one, const Claim& other) {
  return base::fail(ErrorKind::invalid_argument,
                    fmt::format("two launchers disagree about this rank: {}, {}; unset the wrong "
                                "ones, or give --rank, --world-size and --rendezvous",
                                text_of(one), text_of(other)));
}

// Half a pair is an error where the names leave no doubt whose they are.
Result<MaybeClaim> claim_of(const Environment& environment, const Names& names, bool must_pair) {
  const bool has_rank = !value_of(environment, names.rank).empty();
  const bool has_size = !value_of(environment, names.size).empty();
  if (must_pair && has_rank != has_size) {
    return base::fail(
        ErrorKind::invalid_argument,
        fmt::format("the environment has {} without {}: give --rank, --world-size and "
                    "--rendezvous",
                    has_rank ? names.rank : names.size, has_rank ? names.size : names.rank));
  }
  if (!has_rank || !has_size) return std::nullopt;
  DLOBD_TRY(rank, number_of(environment, names.rank));
  DLOBD_TRY(size, number_of(environment, names.size));
  DLOBD_TRY(local_rank, first_number(environment, names.local_rank));
  DLOBD_TRY(local_size, first_number(environment, names.local_size));
  Claim claim{names.launcher, *rank, *size, local_rank, local_size};
  if (claim.rank >= claim.size) {
    return base::fail(ErrorKind::invalid_argument,
                      fmt::format("not a rank of its job, by the environment: {}", text_of(claim)));
  }
  return claim;
}

// torchrun's agents may be tasks of another launcher: then that one counts agents.
Result<bool> starts_agents(const Environment& environment, const Claim& outer) {
  DLOBD_TRY(agents, number_of(environment, "GROUP_WORLD_SIZE"));
  return outer.size == 1 || (agents && *agents == outer.size);
}

}  // namespace

Result<std::optional<int>> number_of(const Environment& environment, std::string_view name) {
  const std::string& text = value_of(environment, name);
  if (text.empty()) return std::nullopt;
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    return base::fail(ErrorKind::invalid_argument,
                      fmt::format("not a whole number in the environment: {}={:.40}", name, text));
  }
  return value;
}

Result<MaybeClaim> innermost_claim(const Environment& environment) {
  DLOBD_TRY(torchrun, claim_of(environment, kTorchrun, false));
  DLOBD_TRY(open_mpi, claim_of(environment, kOpenMpi, true));
  DLOBD_TRY(pmi, claim_of(environment, kPmi, true));
  DLOBD_TRY(slurm, claim_of(environment, kSlurm, false));
  if (open_mpi && pmi && !agree(*open_mpi, *pmi)) return contradiction(*open_mpi, *pmi);
  // srun speaks PMI to its tasks when asked to, and knows more than PMI says.
  MaybeClaim outer = open_mpi ? open_mpi : pmi;
  if (slurm && (!outer || (!open_mpi && agree(*slurm, *pmi)))) outer = slurm;
  if (!torchrun) return outer;
  if (outer && !agree(*torchrun, *outer)) {
    DLOBD_TRY(nested, starts_agents(environment, *outer));
    if (!nested) return contradiction(*torchrun, *outer);
  }
  return torchrun;
}

}  // namespace dlobd::app
