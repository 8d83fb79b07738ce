// One backend's devices, as jobs ask for them: opened when first needed. Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "framework/runtime/backend.h"

namespace ndtrain {

class Devices {
 public:
  explicit Devices(std::string backend, bool less_memory = false)
      : backend_(std::move(backend)), less_memory_(less_memory) {}

  // Throws Error when there is no such backend.
  const Device& get(bool deterministic) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Device>& device = devices_[deterministic ? 1 : 0];
    if (!device) {
      device = std::make_unique<Device>(
          Backend::find(backend_),
          DeviceOptions{.deterministic = deterministic, .less_memory = less_memory_});
    }
    return *device;
  }

 private:
  std::string backend_;
  bool less_memory_;
  std::mutex mutex_;
  std::unique_ptr<Device> devices_[2];
};

}  // namespace ndtrain
