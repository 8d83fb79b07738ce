#include "backends/cuda/dnn/planning.h"

namespace ndtrain::cuda {
namespace {

std::shared_ptr<PlanningHandle> planning_of(ndt_device& device) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (!device.planning) device.planning = std::make_shared<PlanningHandle>();
  return device.planning;
}

}  // namespace

PlanningHandle::PlanningHandle() { check(cudnnCreate(&handle_), "make a cuDNN handle"); }

PlanningHandle::~PlanningHandle() { (void)cudnnDestroy(handle_); }

PlanningHandle::Lease::Lease(ndt_device& device)
    : planning_(planning_of(device)), lock_(planning_->mutex_) {}

}  // namespace ndtrain::cuda
