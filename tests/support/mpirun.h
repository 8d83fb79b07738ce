// Programs started by mpirun, or by srun, where there is one.
#pragma once

#include <string>

namespace ndtrain::support {

struct LaunchOutcome {
  int code = -1;     // of mpirun, or srun
  std::string said;  // by all ranks and that, on stdout and stderr
};

// Why nothing can be started by mpirun here; empty where it can.
std::string why_no_mpirun();

// Runs `mpirun` with these words for a shell, in the directory; at most two minutes.
LaunchOutcome mpirun(const std::string& words, const std::string& directory = ".");

// The same of srun, in a Slurm of one node that is started for it.
std::string why_no_srun();
// Of several nodes.
std::string why_no_nodes();
LaunchOutcome srun(const std::string& words, const std::string& directory = ".");
// A job script and its words; `environment`, as NAME=VALUE, is the script's too.
LaunchOutcome sbatch(const std::string& words, const std::string& environment,
                     const std::string& directory = ".");

}  // namespace ndtrain::support
