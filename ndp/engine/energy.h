// Energy that this machine's processors have used, where Linux shows their counters (RAPL under
// /sys/class/powercap, mostly to root alone).
#pragma once

#include <map>
#include <optional>
#include <string>

#include "framework/core/fs.h"

namespace ndtrain {

// One thread.
class EnergyMeter {
 public:
  explicit EnergyMeter(Fs& fs, std::string root = "/sys/class/powercap");

  // Joules of all packages since the last call, or since this was made; of everything that ran on
  // them. Nullopt where there are no counters.
  std::optional<double> take();

 private:
  struct Package {
    uint64_t last = 0, range = 0;  // microjoules; the counter starts over beyond the range
  };

  std::optional<uint64_t> number(const std::string& package, const std::string& file) const;

  Fs& fs_;
  std::string root_;
  std::map<std::string, Package> packages_;
};

}  // namespace ndtrain
