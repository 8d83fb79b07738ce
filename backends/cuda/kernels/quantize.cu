#include "backends/cuda/kernels/quantize.h"

namespace ndtrain::cuda {
namespace {

__global__ void chosen(const float* range, float* scale, uint8_t* zero) {
  if (threadIdx.x != 0) return;
  const float low = range[0], high = range[1];
  const float step = high == low ? 1.0f : (high - low) / 255.0f;
  const float z = std::rint(-low / step);
  *scale = step;
  *zero = static_cast<uint8_t>(z < 0.0f ? 0.0f : z > 255.0f ? 255.0f : z);
}

}  // namespace

void choose_scale(const float* range, float* scale, uint8_t* zero, cudaStream_t stream) {
  launch(chosen, Extent{1, 32}, stream, range, scale, zero);
}

}  // namespace ndtrain::cuda
