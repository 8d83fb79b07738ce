#include "framework/core/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace ndtrain {
namespace {

// A limit that is none is a word, or more than the machine has.
int64_t least_of(int64_t machine) {
  int64_t least = machine;
  for (const char* file :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    int64_t limit = 0;
    if (std::ifstream(file) >> limit && limit > 0) least = std::min(least, limit);
  }
  return least;
}

}  // namespace

int64_t host_memory() {
  static const int64_t bytes =
      least_of(int64_t{sysconf(_SC_PHYS_PAGES)} * int64_t{sysconf(_SC_PAGESIZE)});
  return bytes;
}

}  // namespace ndtrain
