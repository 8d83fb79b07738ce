// One backend's devices, as jobs ask for them: opened when first needed. Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "framework/runtime/backend.h"

namespace ndtrain {

class Devices {
 public:
  explicit Devices(std::string backend, DeviceOptions options = {})
      : backend_(std::move(backend)), options_(std::move(options)) {}

  // Throws Error when there is no such backend.
  const Device& get(bool deterministic) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Device>& device = devices_[deterministic ? 1 : 0];
    if (!device) {
      DeviceOptions options = options_;
      options.deterministic = deterministic;
      device = std::make_unique<Device>(Backend::find(backend_), options);
    }
    return *device;
  }

 private:
  std::string backend_;
  DeviceOptions options_;
  std::mutex mutex_;
  std::unique_ptr<Device> devices_[2];
};

}  // namespace ndtrain
