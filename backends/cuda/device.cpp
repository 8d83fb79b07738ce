#include "backends/cuda/device.h"

namespace ndtrain::cuda {

Current::Current(const ndt_device& device) {
  check(cudaGetDevice(&before_), "ask for the current device");
  if (before_ == device.index) return;
  check(cudaSetDevice(device.index), text_of("make device ", device.index, " current"));
}

Current::~Current() { cudaSetDevice(before_); }

}  // namespace ndtrain::cuda
