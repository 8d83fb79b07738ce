// One target under libFuzzer (https://llvm.org/docs/LibFuzzer.html): $NDT_FUZZ_TARGET names it.
// With $NDT_FUZZ_SEEDS, a directory, its seeds are written there, and that is all.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "framework/core/log.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using ndtrain::fuzz::FuzzTarget;

FuzzTarget chosen;

void write_seeds(const std::string& directory) {
  const std::vector<std::string> seeds = chosen.seeds();
  for (size_t i = 0; i < seeds.size(); ++i) {
    std::ofstream(directory + "/seed" + std::to_string(i), std::ios::binary) << seeds[i];
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  ndtrain::log::set_level(ndtrain::log::Level::kOff);
  const char* name = std::getenv("NDT_FUZZ_TARGET");
  for (FuzzTarget& t : ndtrain::fuzz::all_targets()) {
    if (name != nullptr && t.name == name) chosen = t;
    if (name == nullptr) std::puts(t.name.c_str());
  }
  if (name == nullptr) std::exit(0);
  if (chosen.read == nullptr) {
    std::fprintf(stderr, "NDT_FUZZ_TARGET: there is no target %s\n", name);
    std::exit(2);
  }
  if (const char* directory = std::getenv("NDT_FUZZ_SEEDS")) {
    write_seeds(directory);
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ndtrain::fuzz::read_by(chosen, {reinterpret_cast<const char*>(data), size});
  return 0;
}
