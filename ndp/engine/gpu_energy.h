// Energy that NVIDIA GPUs of this machine have used, as their driver counts it (NVML).
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace ndtrain::ndp {

// One thread.
class GpuEnergy {
 public:
  // `library` is NVML's; where there is none, nothing is ever known.
  explicit GpuEnergy(const std::string& library);
  ~GpuEnergy();

  // Joules of all GPUs that count them, since the last call, or since this was made; of everything
  // that ran on them. Nullopt where none does.
  std::optional<double> take();

 private:
  struct Nvml;
  std::unique_ptr<Nvml> nvml_;  // null: there are no counters
};

}  // namespace ndtrain::ndp
