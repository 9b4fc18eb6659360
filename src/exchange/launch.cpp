#include "exchange/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "exchange/session.hpp"

namespace nsys_explain::exchange {
namespace {

/// Set by the launcher in every process of an MPI job. Slurm's own variables are not among them: srun sets those
/// also where it offers the processes no way to find each other (srun --mpi=none).
constexpr std::array kLauncherVariables = {
    "OMPI_COMM_WORLD_SIZE",  // Open MPI's mpirun
    "PMIX_RANK",             // PMIx: srun --mpi=pmix, prun
    "PMI_RANK",              // PMI-1 and PMI-2: MPICH's mpirun, srun --mpi=pmi2, flux
    "PMI_SIZE",
    "PMI_FD",
    "PMI_PORT",
    "MPI_LOCALNRANKS",      // MPICH, Intel MPI
    "MV2_COMM_WORLD_SIZE",  // MVAPICH2
    "JSM_NAMESPACE_SIZE",   // IBM jsrun
    "PALS_RANKID",          // HPE Cray PALS
    "ALPS_APP_PE",          // Cray aprun
};

/// Number of tasks that a launcher says it started together with this one; 0 where it does not say.
int tasks(const Environment& environment, const char* name) {
  const std::optional<std::string> text = environment(name);
  if (!text) return 0;
  int count = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), count);
  return error == std::errc() && end == text->data() + text->size() ? count : 0;
}

}  // namespace

std::optional<std::string> process_environment(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

MpiChoice mpi_choice(const Environment& environment) {
  const std::optional<std::string> text = environment("NSYS_EXPLAIN_MPI");
  if (!text) return MpiChoice::launcher_decides;
  if (*text == "off") return MpiChoice::off;
  if (*text == "on") return MpiChoice::on;
  return MpiChoice::invalid;
}

bool launched_by_mpi(const Environment& environment) {
  return std::any_of(kLauncherVariables.begin(), kLauncherVariables.end(),
                     [&](const char* name) { return environment(name).has_value(); });
}

bool launched_by_mpi() {
  return launched_by_mpi(process_environment);
}

std::optional<std::string> launch_warning(const Environment& environment, int world_size) {
  if (world_size > 1) return std::nullopt;
  const bool switched_off = mpi_choice(environment) == MpiChoice::off;

  for (const char* name : {"SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    const int started = tasks(environment, name);
    if (started <= 1) continue;
    const std::string cure =
        switched_off ? "unset NSYS_EXPLAIN_MPI, or start one task"
        : std::string_view(name).starts_with("SLURM")
            ? "start it with srun --mpi=pmix or with mpirun, or start one task (srun --ntasks=1)"
            : "use the mpirun of the MPI library that this program was built with, or start one task";
    return fmt::format(
        "{} says that {} tasks were started, but this one sees an MPI world of one rank{}; every task does the whole work and writes the same files; {}",
        name, started, switched_off ? " (NSYS_EXPLAIN_MPI=off)" : "", cure);
  }

  // Only the job's size, no step's: a batch script that calls the tool without a launcher. An srun of one task in a
  // larger job sets SLURM_STEP_NUM_TASKS=1 and is what its user asked for.
  const int granted = tasks(environment, "SLURM_NTASKS");
  if (granted <= 1 || environment("SLURM_STEP_NUM_TASKS") || switched_off) return std::nullopt;
  return fmt::format(
      "SLURM_NTASKS says that {} tasks belong to this job, but the MPI world has one rank; if each task runs this program, each does the whole work and writes the same files, and if only one does, the others stay idle; start it with srun --mpi=pmix or with mpirun",
      granted);
}

}  // namespace nsys_explain::exchange
