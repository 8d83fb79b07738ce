// What started this process as one of several: mpirun, or srun.
#pragma once

#include <optional>
#include <string>

#include "cli/args.h"

namespace ndtrain::cli {

struct Launcher {
  std::string name;  // "mpirun", "srun"
  int ranks = 0;     // that it says it has started; 0: it does not say
};

// As the environment has it: OMPI_COMM_WORLD_RANK, SLURM_PROCID in a step of srun, PMIX_RANK,
// PMI_RANK. None where nobody did.
std::optional<Launcher> launcher();

// Whether ranks send messages by MPI, from --comm, --rank and who started them: also beside NCCL,
// which adds up on GPUs alone. Throws UsageError for what cannot be: a way that there is not, MPI
// without a launcher, or TCP between processes that a launcher has started and nobody has told
// their ranks.
bool talks_by_mpi(const Args& args, const std::optional<Launcher>& by);

}  // namespace ndtrain::cli
