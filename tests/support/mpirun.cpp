#include "tests/support/mpirun.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/support/paths.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::support {
namespace {

LaunchOutcome shell(const std::string& command) {
  LaunchOutcome outcome;
  FILE* const pipe = popen(command.c_str(), "r");
  if (!pipe) return outcome;
  char buffer[4096];
  while (const size_t n = fread(buffer, 1, sizeof buffer, pipe)) outcome.said.append(buffer, n);
  const int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

LaunchOutcome in_slurm(const std::string& environment, const std::string& words,
                       const std::string& directory) {
  const TemporaryDirectory own;
  return shell("cd '" + directory + "' && " + environment + "timeout -k 5 120 '" +
               source_path("/tests/support/slurm") + "' '" + own.path() + "/slurm' " + words +
               " 2>&1 < /dev/null");
}

}  // namespace

std::string why_no_srun() {
  if (std::string why = why_no_mpirun(); !why.empty()) return why;
  if (geteuid() != 0) return "a Slurm of one's own is started by root alone";
  const std::string sbin = "PATH=$PATH:/usr/sbin; ";
  for (const std::string name : {"srun", "slurmctld", "slurmd", "munged"}) {
    if (shell(sbin + "command -v " + name).code != 0) {
      return "there is no " + name + " on this machine: install slurmctld, slurmd, slurm-client " +
             "and munge";
    }
  }
  return "";
}

std::string why_no_nodes() {
  if (std::string why = why_no_srun(); !why.empty()) return why;
  return shell("unshare --mount true 2>&1").code == 0
             ? ""
             : "nodes have names in a mount namespace, which a chroot does not let one make";
}

LaunchOutcome srun(const std::string& words, const std::string& directory) {
  return in_slurm("", words, directory);
}

LaunchOutcome sbatch(const std::string& words, const std::string& environment,
                     const std::string& directory) {
  return in_slurm("SBATCH=yes " + environment + " ", words, directory);
}

std::string why_no_mpirun() {
  if (under_sanitizer()) {
    return "the sanitizers take what MPI leaves behind for leaks and races of ours";
  }
  return shell("mpirun --version 2>&1").code == 0
             ? ""
             : "there is no mpirun on this machine: install openmpi-bin";
}

// As root, as in a container; with more ranks than cores; none of them bound to one. Each keeps
// what Open MPI needs in a directory of its own: one that ends removes what all of them share.
LaunchOutcome mpirun(const std::string& words, const std::string& directory) {
  const TemporaryDirectory own;
  return shell("cd '" + directory + "' && TMPDIR='" + own.path() +
               "' timeout -k 5 120 mpirun --allow-run-as-root --oversubscribe --bind-to none " +
               words + " 2>&1 < /dev/null");
}

}  // namespace ndtrain::support
