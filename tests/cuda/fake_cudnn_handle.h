// The fake's cuDNN handle.
#pragma once

#include <cudnn.h>

struct cudnnContext {
  cudaStream_t stream = nullptr;
};
