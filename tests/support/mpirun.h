// Programs started by mpirun, where there is one.
#pragma once

#include <string>

namespace ndtrain::support {

struct LaunchOutcome {
  int code = -1;     // of mpirun
  std::string said;  // by all ranks and mpirun, on stdout and stderr
};

// Why nothing can be started by mpirun here; empty where it can.
std::string why_no_mpirun();

// Runs `mpirun` with these words for a shell, in the directory; at most two minutes.
LaunchOutcome mpirun(const std::string& words, const std::string& directory = ".");

}  // namespace ndtrain::support
