// Energy that this machine has used, as far as it can be read: that of the processors where Linux
// shows their counters (RAPL under /sys/class/powercap, mostly to root alone), and of NVIDIA GPUs.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "framework/core/fs.h"
#include "ndp/engine/gpu_energy.h"

namespace ndtrain::ndp {

// One thread.
class EnergyMeter {
 public:
  explicit EnergyMeter(Fs& fs, std::string root = "/sys/class/powercap",
                       const std::string& nvml = "libnvidia-ml.so.1");

  // Joules of all processors and GPUs that count them, since the last call, or since this was made;
  // of everything that ran on them. Nullopt where there are no counters.
  std::optional<double> take();

 private:
  struct Package {
    uint64_t last = 0, range = 0;  // microjoules; the counter starts over beyond the range
  };

  std::optional<double> packages();
  std::optional<uint64_t> number(const std::string& package, const std::string& file) const;

  Fs& fs_;
  std::string root_;
  std::map<std::string, Package> packages_;
  GpuEnergy gpus_;
};

}  // namespace ndtrain::ndp
