#include "cli/launcher.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace ndtrain::cli {
namespace {

int number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  int n = 0;
  if (text) std::from_chars(text, text + std::strlen(text), n);
  return n;
}

bool is_set(const char* variable) { return std::getenv(variable) != nullptr; }

}  // namespace

// The script that sbatch starts has SLURM_PROCID as well, but is no step.
std::optional<Launcher> launcher() {
  if (is_set("OMPI_COMM_WORLD_RANK")) return Launcher{"mpirun", number_in("OMPI_COMM_WORLD_SIZE")};
  if (is_set("SLURM_PROCID") && is_set("SLURM_STEP_ID")) {
    return Launcher{"srun", number_in("SLURM_STEP_NUM_TASKS")};
  }
  if (is_set("PMIX_RANK")) return Launcher{"mpirun", 0};
  if (is_set("PMI_RANK")) return Launcher{"mpirun", number_in("PMI_SIZE")};
  return std::nullopt;
}

bool talks_by_mpi(const Args& args, const std::optional<Launcher>& by) {
  const std::string comm = args.text("comm");
  const bool apart = args.has("rank"), several = by && by->ranks != 1;
  if (comm != "auto" && comm != "tcp" && comm != "mpi" && comm != "nccl") {
    throw UsageError("--comm " + comm + ": there are auto, tcp, mpi and nccl");
  }
  if (comm == "mpi" && apart) {
    throw UsageError(
        "--comm mpi: mpirun or srun says who is which rank; leave --rank and "
        "--rendezvous away");
  }
  if (comm == "mpi" && !by) {
    throw UsageError(
        "--comm mpi: neither mpirun nor srun has started this process; mpirun -n 2 "
        "ndtrain train …, or srun --mpi=pmix -n 2 ndtrain train …");
  }
  if (comm == "tcp" && several && !apart) {
    throw UsageError("--comm tcp: " + by->name +
                     " has started several processes, and each would train for itself; give each "
                     "--rank and --rendezvous, or leave --comm away");
  }
  return comm == "mpi" || (comm != "tcp" && several && !apart);
}

}  // namespace ndtrain::cli
