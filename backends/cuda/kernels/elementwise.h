// One function of up to four operands, computed for every element of the output.
#pragma once

#include "backends/cuda/kernels/functions.h"
#include "backends/cuda/kernels/walk.h"

namespace ndtrain::cuda {

struct Elementwise {
  Function function = Function::kSame;
  Class computed = Class::kFloat;  // in what the function is computed
  double a = 0, b = 0;
  int inputs = 1;
  Walk walk;
  ndt_dtype in[kMostInputs] = {}, out = NDT_F32;

  // No input may lie over the output, but those that walk.whole() names.
  void run(const void* const* data, void* to, cudaStream_t stream) const;
};

}  // namespace ndtrain::cuda
