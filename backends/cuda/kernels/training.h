// One optimizer step of one parameter, element by element, and the masks of Dropout; see the ops
// for the formulas. Hyper-parameters and seeds are read on the device, so that a captured plan
// takes those of its run.
#pragma once

#include "backends/cuda/kernels/number.h"

namespace ndtrain::cuda {

// in: w, g, m, hyper-parameters; out: w, m. Outputs may lie over inputs.
void sgd_step(ndt_dtype t, int64_t n, bool nesterov, const void* const* in, void* const* out,
              cudaStream_t stream);

// in: w, g, m, v, with five states the largest v, then hyper-parameters; out: w and the moments.
// Outputs may lie over inputs.
void adam_step(ndt_dtype t, int64_t n, int states, bool decoupled, const void* const* in,
               void* const* out, cudaStream_t stream);

// in: w, g, m, v, with five states the mean, then hyper-parameters; out: w and the moments. Outputs
// may lie over inputs.
void rms_prop_step(ndt_dtype t, int64_t n, int states, const void* const* in, void* const* out,
                   cudaStream_t stream);

// 0 with probability `ratio`, else 1 / (1 - ratio): the numbers of the framework's generator for
// seed and step, `seeds`.
void dropout_mask(int64_t n, double ratio, uint64_t of_stream, const uint64_t* seeds, float* mask,
                  cudaStream_t stream);

}  // namespace ndtrain::cuda
