#include "framework/core/memory.h"

#include <fstream>
#include <string>

namespace ndtrain {

int64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  for (int64_t kib = 0; file >> name >> kib; std::getline(file, unit)) {
    if (name == "MemAvailable:") return kib * 1024;
  }
  return 0;
}

}  // namespace ndtrain
