// What a process that decodes photos, or imports models, of strangers gives up before it sees the
// first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/core/status.h"

namespace ndtrain::ndp {

struct ConfinementLimits {
  int64_t memory = 0;       // bytes of address space beyond what the process has
  int64_t cpu_seconds = 0;  // of the process, in all
  // Off only where a test looks at what remains without it.
  bool filter = true, landlock = true;
};

struct Confinement {
  int landlock = 0;                       // its version; 0: none
  bool filter = false, memory = false;    // are in force
  std::vector<std::string> missing = {};  // what is not, and why: "Landlock (…)"

  // For people: "processes of their own, a filter of system calls, Landlock 7, 4 GiB of memory".
  std::string held_by(const ConfinementLimits& limits) const;
  std::string lacks() const;  // "": nothing
};

// Confines this process for good; `socket` is what it may go on reading and writing. One thread
// may be running. kIo: what every kernel has could not be set.
Result<Confinement> confine(int socket, const ConfinementLimits& limits);

}  // namespace ndtrain::ndp
