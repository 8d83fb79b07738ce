// Two-dimensional f32 convolution with one input channel per group, without a matrix product: each
// plane is staged (tap_stage.h) and the outputs computed as one long row, whole vectors at a time.
// Every output is one chain of multiply-adds over the taps.
#pragma once

#include "backends/cpu/gemm/packed_gemm.h"
#include "backends/cpu/kernels/conv_geometry.h"
#include "backends/cpu/kernels/tap_stage.h"

namespace ndtrain::cpu {

class ConvDepthwise {
 public:
  // `geometry` is flat() with in_channels 1. At most `slots` tasks run at once.
  ConvDepthwise(const ConvGeometry& geometry, int slots);

  size_t scratch_floats() const;  // of a run
  // The epilogue has no col_bias.
  void run(const float* w, const float* x, float* y, const Epilogue& epilogue,
           float* scratch) const;

 private:
  void run_plane(const float* stage, const float* w, float* sums) const;

  ConvGeometry g_;
  TapStage taps_;
  int64_t stage_floats_, sums_floats_;
  int slots_;
};

}  // namespace ndtrain::cpu
