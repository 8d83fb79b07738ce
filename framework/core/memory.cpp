#include "framework/core/memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace ndtrain {
namespace {

// A limit that is none is a word, or more than the machine has.
int64_t limited_by_control_group(int64_t bytes) {
  for (const char* file :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    int64_t limit = 0;
    if (std::ifstream(file) >> limit && limit > 0) bytes = std::min(bytes, limit);
  }
  return bytes;
}

}  // namespace

int64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  for (int64_t kib = 0; file >> name >> kib; std::getline(file, unit)) {
    if (name == "MemAvailable:") return kib * 1024;
  }
  return 0;
}

int64_t usable_memory() {
  static const int64_t bytes =
      limited_by_control_group(int64_t{sysconf(_SC_PHYS_PAGES)} * int64_t{sysconf(_SC_PAGESIZE)});
  return bytes;
}

}  // namespace ndtrain
