// The devices that answer, and opening one.
#pragma once

#include <memory>
#include <string>

#include "backends/cuda/device.h"

namespace ndtrain::cuda {

int count_devices();  // at least one, or throws Failure with the reason

// What decides the bits of a result on the devices that are here, where their options change
// nothing: "cuda 0.1.0+ab12cd34 sm_75 cudnn 91900 cublasLt 130100".
std::string numerics_of_devices();

struct CloseDevice {
  void operator()(ndt_device* device) const;
};
using OpenDevice = std::unique_ptr<ndt_device, CloseDevice>;

// `options` may be null.
OpenDevice open_device(int index, const ndt_options* options);

}  // namespace ndtrain::cuda
