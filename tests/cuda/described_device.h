// cuDNN itself where there is no device: it accepts a description of one instead of a handle, for
// its heuristics, engines and plans. This file's source defines the calls by which the plugin
// reaches the library, in front of the library's own: they leave handles out, say the description
// where a device is asked for, note what comes back, and pass everything on. Memory of the device
// is the host's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ndtrain::described {

struct Chip {
  const char* name;
  int architecture;
  int processors, threads_per_processor, blocks_per_processor;
  int64_t shared_bytes, reserved_shared_bytes;  // of a block that asks for all; of every block
  int64_t cache_bytes, memory_bytes, clock_khz, memory_clock_khz;
};

extern const Chip kT4, kA100, kH100;

// From here on the library works for this chip. Empty, or why it cannot.
std::string describe(const Chip& chip);

// What came of the plugin's calls since the last reset().
struct Answers {
  int graphs = 0;     // that the library accepted
  int suggested = 0;  // engines, by its heuristics
  int allowed = 0;    // of these, by the plugin's own rules
  int plans = 0;      // ready to run
  int unloaded = 0;   // plans of which nothing but the device was missing, to load a kernel into
  std::vector<int64_t> operations;  // of every graph that a plan, unloaded or not, was made for
};

const Answers& answers();
void reset();

}  // namespace ndtrain::described
