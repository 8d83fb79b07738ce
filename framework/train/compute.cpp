#include "framework/train/compute.h"

namespace ndtrain {

TrainingCompute training_compute(DType asked, const Device& device) {
  if (asked == DType::kF32 || !device.shares_host_memory()) return {asked};
  const std::string name(name_of(asked));
  return {DType::kF32, "--compute " + name + ": trained in f32, since the " +
                           device.backend().name() + " backend has no backward pass in " + name};
}

}  // namespace ndtrain
