// The cuDNN handle that a device's kernels are prepared with. A handle serves one thread at a time,
// and making one is slow, so that a device keeps one and prepares kernels in turn.
#pragma once

#include <mutex>

#include "backends/cuda/device.h"

namespace ndtrain::cuda {

class PlanningHandle {
 public:
  PlanningHandle();  // on the current device
  ~PlanningHandle();
  PlanningHandle(const PlanningHandle&) = delete;
  PlanningHandle& operator=(const PlanningHandle&) = delete;

  // Has the handle for its lifetime.
  class Lease {
   public:
    explicit Lease(ndt_device& device);
    cudnnHandle_t handle() const { return planning_->handle_; }

   private:
    std::shared_ptr<PlanningHandle> planning_;
    std::unique_lock<std::mutex> lock_;
  };

 private:
  std::mutex mutex_;
  cudnnHandle_t handle_ = nullptr;
};

}  // namespace ndtrain::cuda
