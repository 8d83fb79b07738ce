#include <cmath>

#include "backends/cuda/dnn/conv_bytes.h"
#include "backends/cuda/kernels/launch.h"

namespace ndtrain::cuda {
namespace {

__device__ int32_t byte_at(const void* p, int64_t i, bool is_signed) {
  if (!p) return 0;
  return is_signed ? static_cast<const int8_t*>(p)[i] : static_cast<const uint8_t*>(p)[i];
}

// One output element: image, channel, place.
struct Place {
  int64_t image, channel, at[ByteConv::kSpatial];
};

__device__ Place place_of(const ByteConv& c, int64_t i) {
  Place p{};
  p.channel = i % (c.groups * c.out);
  i /= c.groups * c.out;
  for (int d = ByteConv::kSpatial - 1; d >= 0; --d) {
    p.at[d] = i % c.y_dims[d];
    i /= c.y_dims[d];
  }
  p.image = i;
  return p;
}

__device__ int64_t offset_of(const Place& p, const int64_t* strides) {
  int64_t at = p.image * strides[0] + p.channel * strides[1];
  for (int d = 0; d < ByteConv::kSpatial; ++d) at += p.at[d] * strides[2 + d];
  return at;
}

__device__ int64_t sum_at(const ByteConv& c, const ByteConvData& data, const Place& p) {
  const int32_t x_zero = byte_at(data.x_zero, 0, c.x_signed);
  const int32_t w_zero = byte_at(data.w_zero, c.w_zero_each ? p.channel : 0, c.w_signed);
  const int64_t x0 = p.image * c.x_strides[0] + p.channel / c.out * c.in * c.x_strides[1];
  const int64_t w0 = p.channel * c.w_strides[0];
  int64_t sum = 0;
  for (int64_t a = 0; a < c.taps[0]; ++a) {
    const int64_t z = p.at[0] * c.stride[0] + a * c.dilation[0] - c.begin[0];
    if (z < 0 || z >= c.x_dims[0]) continue;
    for (int64_t b = 0; b < c.taps[1]; ++b) {
      const int64_t y = p.at[1] * c.stride[1] + b * c.dilation[1] - c.begin[1];
      if (y < 0 || y >= c.x_dims[1]) continue;
      for (int64_t e = 0; e < c.taps[2]; ++e) {
        const int64_t x = p.at[2] * c.stride[2] + e * c.dilation[2] - c.begin[2];
        if (x < 0 || x >= c.x_dims[2]) continue;
        const int64_t from = x0 + z * c.x_strides[2] + y * c.x_strides[3] + x * c.x_strides[4];
        const int64_t by = w0 + a * c.w_strides[2] + b * c.w_strides[3] + e * c.w_strides[4];
        for (int64_t k = 0; k < c.in; ++k) {
          sum += static_cast<int64_t>(byte_at(data.x, from + k * c.x_strides[1], c.x_signed) -
                                      x_zero) *
                 (byte_at(data.w, by + k * c.w_strides[1], c.w_signed) - w_zero);
        }
      }
    }
  }
  return sum;
}

constexpr int32_t kToSigned = 128;

// By those that were made elsewhere.
__device__ int64_t corrected(const ByteConv& c, const ByteConvData& data, const Place& p,
                             int64_t i) {
  const int64_t sum =
      data.float_sums ? static_cast<int64_t>(data.float_sums[i]) : int64_t{data.int_sums[i]};
  const int32_t zero = byte_at(data.x_zero, 0, c.x_signed) - (c.x_signed ? 0 : kToSigned);
  return sum - int64_t{zero} * data.w_sums[p.channel];
}

__global__ void stage_kernel(ByteStage s, int64_t n, const void* x, const void* x_zero,
                             int8_t* to) {
  const int64_t step = int64_t{blockDim.x} * gridDim.x;
  const int32_t less = s.x_signed ? 0 : kToSigned;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    int64_t rest = i / s.channels, from = i % s.channels * s.x_strides[1];
    bool inside = true;
    for (int d = ByteConv::kSpatial - 1; d >= 0; --d) {
      const int64_t at = rest % s.dims[d] - s.begin[d];
      rest /= s.dims[d];
      inside = inside && at >= 0 && at < s.x_dims[d];
      from += at * s.x_strides[2 + d];
    }
    from += rest * s.x_strides[0];
    const int32_t value = inside ? byte_at(x, from, s.x_signed) : byte_at(x_zero, 0, s.x_signed);
    to[i] = static_cast<int8_t>(value - less);
  }
}

// Products and sums of scales are rounded one by one, as the op says.
__device__ void write_quantized(const ByteConv& c, const ByteConvData& data, const Place& p,
                                int64_t sum, int64_t at) {
  const float y_scale = data.y_scale[0];
  const float product = data.x_scale[0] * data.w_scale[c.w_scale_each ? p.channel : 0];
  if (data.bias) sum += data.bias[p.channel];
  volatile float scaled = static_cast<float>(sum) * (product / y_scale);  // no fused multiply-add
  float a = scaled;
  if (data.residual) {
    const int32_t r = byte_at(data.residual, offset_of(p, c.r_strides), c.r_signed) -
                      byte_at(data.r_zero, 0, c.r_signed);
    volatile float other = static_cast<float>(r) * (data.r_scale[0] / y_scale);
    a = scaled + other;
  }
  const float low = c.low / y_scale, high = c.high / y_scale;
  a = a < low ? low : a > high ? high : a;
  const float zero = static_cast<float>(byte_at(data.y_zero, 0, c.y_signed));
  const float least = c.y_signed ? -128.0F : 0.0F, most = c.y_signed ? 127.0F : 255.0F;
  float q = a != a ? zero : rintf(a) + zero;
  q = q < least ? least : q > most ? most : q;
  if (c.y_signed) {
    static_cast<int8_t*>(data.y)[at] = static_cast<int8_t>(q);
  } else {
    static_cast<uint8_t*>(data.y)[at] = static_cast<uint8_t>(q);
  }
}

__global__ void convolve_kernel(ByteConv c, ByteConvData data, int64_t n) {
  const int64_t step = int64_t{blockDim.x} * gridDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    const Place p = place_of(c, i);
    const int64_t at = offset_of(p, c.y_strides);
    const int64_t sum = data.w_sums ? corrected(c, data, p, i) : sum_at(c, data, p);
    if (c.requantize) {
      write_quantized(c, data, p, sum, at);
    } else {
      static_cast<int32_t*>(data.y)[at] = static_cast<int32_t>(sum);
    }
  }
}

}  // namespace

void convolve_bytes(const ByteConv& c, const ByteConvData& data, cudaStream_t stream) {
  int64_t n = c.images * c.groups * c.out;
  for (const int64_t extent : c.y_dims) n *= extent;
  launch(convolve_kernel, extent_for(n), stream, c, data, n);
}

void stage_bytes(const ByteStage& s, const void* x, const void* x_zero, int8_t* to,
                 cudaStream_t stream) {
  int64_t n = s.images * s.channels;
  for (const int64_t extent : s.dims) n *= extent;
  launch(stage_kernel, extent_for(n), stream, s, n, x, x_zero, to);
}

}  // namespace ndtrain::cuda
