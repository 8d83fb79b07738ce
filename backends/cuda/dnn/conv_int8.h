// What the forms of a convolution of bytes share.
#pragma once

#include "backends/cuda/dnn/conv_bytes.h"
#include "backends/cuda/kernel.h"

namespace ndtrain::cuda {

// Where an op has its ports; -1: nowhere.
struct BytePorts {
  int x = 0, x_scale = -1, x_zero = -1, w = 1, w_scale = -1, w_zero = -1, y_scale = -1, y_zero = -1;
  int bias = -1, residual = -1, r_scale = -1, r_zero = -1;
};

ByteConvData data_of(const BytePorts& p, const void* const* in, void* const* out);

// Sums by cuDNN, from x as signed bytes with its padding written out. Throws Unsupported where
// weights are not constant i8 around zero, or cuDNN has no engine for i8.
std::unique_ptr<Kernel> sums_by_cudnn(ndt_device& device, const Node& node, const ByteConv& c,
                                      const BytePorts& p);

}  // namespace ndtrain::cuda
