// Convolutions of bytes with exact sums, by this plugin's own kernel: the form that takes every
// zero point, type and layout; and what it takes to have cuDNN make the sums. C++17: kernels are
// compiled by nvcc.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace ndtrain::cuda {

struct ByteConv {
  static constexpr int kSpatial = 3;
  bool x_signed = false, w_signed = true, y_signed = false, r_signed = false;
  int64_t images = 1, groups = 1, in = 1, out = 1;  // channels per group
  int64_t x_dims[kSpatial] = {1, 1, 1}, y_dims[kSpatial] = {1, 1, 1}, taps[kSpatial] = {1, 1, 1};
  int64_t stride[kSpatial] = {1, 1, 1}, dilation[kSpatial] = {1, 1, 1}, begin[kSpatial] = {};
  // In elements: image, channel, spatial. w: out, in, spatial.
  int64_t x_strides[2 + kSpatial] = {}, y_strides[2 + kSpatial] = {}, w_strides[2 + kSpatial] = {};
  int64_t r_strides[2 + kSpatial] = {};            // of the residual
  bool w_zero_each = false, w_scale_each = false;  // one per output channel
  bool requantize = false;                         // y of bytes by scales; else i32 sums
  float low = 0, high = 0;  // of the activation, in the units of real numbers
};

// Device memory, as the ports of the op have it; null: not there (0 for zero points).
struct ByteConvData {
  const void *x = nullptr, *w = nullptr, *x_zero = nullptr, *w_zero = nullptr, *y_zero = nullptr;
  const float *x_scale = nullptr, *w_scale = nullptr, *y_scale = nullptr, *r_scale = nullptr;
  const int32_t* bias = nullptr;
  const void *residual = nullptr, *r_zero = nullptr;
  void* y = nullptr;
  // Sums made elsewhere, channels-last, of products of signed x (see ByteStage) and w, of which the
  // zero point is 0, as whole numbers in f32 or in i32; and the sum of every output channel's
  // weights. Null: sums are made here.
  const float* float_sums = nullptr;
  const int32_t *int_sums = nullptr, *w_sums = nullptr;
};

void convolve_bytes(const ByteConv& c, const ByteConvData& data, cudaStream_t stream);

// x as signed bytes, channels-last, with the padding written out: unsigned ones less 128, padding
// as the zero point.
struct ByteStage {
  bool x_signed = false;
  int64_t images = 1, channels = 1;
  int64_t x_dims[ByteConv::kSpatial] = {1, 1, 1}, begin[ByteConv::kSpatial] = {};
  int64_t dims[ByteConv::kSpatial] = {1, 1, 1};  // padding included
  int64_t x_strides[2 + ByteConv::kSpatial] = {};
};

void stage_bytes(const ByteStage& s, const void* x, const void* x_zero, int8_t* to,
                 cudaStream_t stream);

}  // namespace ndtrain::cuda
