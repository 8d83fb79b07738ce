// Images and volumes read at the points of a grid.
#pragma once

#include "backends/cuda/kernels/walk.h"

namespace ndtrain::cuda {

enum class SampleMode { kNearest, kLinear, kCubic };
enum class SamplePadding { kZeros, kBorder, kReflection };

// ONNX's GridSample: x [images, channels, in], grid [images, out, dims] of f32 or f64, whose
// coordinates are the last dim's first, y [images, channels, out].
struct GridSampling {
  int dims = 2;  // 1 to 3
  int64_t extents[3] = {1, 1, 1}, images = 1, channels = 1, in = 1, out = 1;
  SampleMode mode = SampleMode::kLinear;
  SamplePadding padding = SamplePadding::kZeros;
  bool align = false;
};
void grid_sample(const GridSampling& s, ndt_dtype t, ndt_dtype grid_type, const void* x,
                 const void* grid, void* y, cudaStream_t stream);

}  // namespace ndtrain::cuda
