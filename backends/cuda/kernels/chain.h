// A few functions in a row, computed for every element of the output with all that lies between
// them in registers, in f32.
#pragma once

#include "backends/cuda/kernels/functions.h"
#include "backends/cuda/kernels/walk.h"

namespace ndtrain::cuda {

// A step reads and writes slots: first those of the inputs, then those of what lies in between.
inline constexpr int kMostSteps = 16, kChainTemporaries = 4;
inline constexpr int kChainSlots = kMostInputs + kChainTemporaries, kMostStepOperands = 3;

struct Chain {
  struct Step {
    Function function = Function::kSame;   // a hot one
    uint8_t from[kMostStepOperands] = {};  // slots; kChainSlots: the number beside it
    uint8_t to = kMostInputs;
    float number[kMostStepOperands] = {};
    float a = 0, b = 0;
  };

  int steps = 0, inputs = 0;
  Step step[kMostSteps];  // the last one's slot is the result
  Walk walk;
  ndt_dtype dtype = NDT_F32;  // or f16, bf16: of all inputs and the output

  // No input may lie over the output, but those that walk.whole() names.
  void run(const void* const* data, void* to, cudaStream_t stream) const;
};

}  // namespace ndtrain::cuda
