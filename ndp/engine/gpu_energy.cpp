#include "ndp/engine/gpu_energy.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <set>
#include <vector>

namespace ndtrain::ndp {
namespace {

// Of nvml.h: 0 is success, a device is an opaque pointer, energy is millijoules since the driver
// was loaded.
using NvmlDevice = void*;
using Init = int (*)();
using GetCount = int (*)(unsigned*);
using GetHandle = int (*)(unsigned, NvmlDevice*);
using GetEnergy = int (*)(NvmlDevice, unsigned long long*);

template <typename F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

// What is not there is looked for once: that is a search of directories, which every job would
// begin with.
void* library_at(const std::string& path) {
  static std::mutex mutex;
  static std::set<std::string> absent;
  const std::lock_guard lock(mutex);
  if (absent.contains(path)) return nullptr;
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) absent.insert(path);
  return library;
}

}  // namespace

struct GpuEnergy::Nvml {
  struct Counter {
    NvmlDevice device = nullptr;
    uint64_t last = 0;  // millijoules
  };

  explicit Nvml(const std::string& path) : library(library_at(path)) {
    Init init = nullptr;
    GetCount get_count = nullptr;
    GetHandle get_handle = nullptr;
    const bool known = library && find(library, "nvmlInit_v2", init) &&
                       find(library, "nvmlShutdown", shutdown) &&
                       find(library, "nvmlDeviceGetCount_v2", get_count) &&
                       find(library, "nvmlDeviceGetHandleByIndex_v2", get_handle) &&
                       find(library, "nvmlDeviceGetTotalEnergyConsumption", get_energy);
    begun = known && init() == 0;
    unsigned devices = 0;
    if (!begun || get_count(&devices) != 0) return;
    for (unsigned i = 0; i < devices; ++i) {
      NvmlDevice device = nullptr;
      if (get_handle(i, &device) != 0) continue;
      if (const auto now = read(device)) counters.push_back({device, *now});
    }
  }
  ~Nvml() {
    if (begun) shutdown();
    if (library) dlclose(library);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::optional<uint64_t> read(NvmlDevice device) const {
    unsigned long long energy = 0;
    if (get_energy(device, &energy) != 0) return std::nullopt;
    return energy;
  }

  void* library;
  Init shutdown = nullptr;
  GetEnergy get_energy = nullptr;
  bool begun = false;
  std::vector<Counter> counters;
};

GpuEnergy::GpuEnergy(const std::string& library) : nvml_(std::make_unique<Nvml>(library)) {
  if (nvml_->counters.empty()) nvml_.reset();
}

GpuEnergy::~GpuEnergy() = default;

std::optional<double> GpuEnergy::take() {
  if (!nvml_) return std::nullopt;
  double joules = 0;
  for (Nvml::Counter& counter : nvml_->counters) {
    const auto now = nvml_->read(counter.device);
    if (!now) return std::nullopt;
    joules += static_cast<double>(*now - std::min(*now, counter.last)) / 1e3;
    counter.last = *now;
  }
  return joules;
}

}  // namespace ndtrain::ndp
