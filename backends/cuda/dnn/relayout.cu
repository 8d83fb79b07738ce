#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backends/cuda/dnn/relayout.h"
#include "backends/cuda/kernels/launch.h"

namespace ndtrain::cuda {
namespace {

template <typename T>
__global__ void copy_kernel(StridedCopy c, int64_t n, const T* from, T* to) {
  const int64_t step = int64_t{blockDim.x} * gridDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    int64_t rest = i, at = 0, into = 0;
    for (int d = c.rank - 1; d >= 0; --d) {
      const int64_t k = rest % c.dims[d];
      rest /= c.dims[d];
      at += k * c.from[d];
      into += k * c.to[d];
    }
    to[into] = from[at];
  }
}

template <typename T>
void copy_as(const StridedCopy& c, const void* from, void* to, cudaStream_t stream) {
  int64_t n = 1;
  for (int d = 0; d < c.rank; ++d) n *= c.dims[d];
  launch(copy_kernel<T>, extent_for(n), stream, c, n, static_cast<const T*>(from),
         static_cast<T*>(to));
}

template <typename T>
struct Wide {
  using Type = float;
};
template <>
struct Wide<double> {
  using Type = double;
};

template <typename T, typename B>
__global__ void finish_kernel(ConvFinish f, T* y, const B* bias, const T* residual) {
  using W = typename Wide<T>::Type;
  const W low = static_cast<W>(f.low), high = static_cast<W>(f.high);
  const int64_t step = int64_t{blockDim.x} * gridDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < f.elements; i += step) {
    W v = static_cast<W>(y[i]);
    if (residual) v += static_cast<W>(residual[i]);
    if (bias) v += static_cast<W>(bias[i / f.inner % f.channels]);
    v = v < low ? low : v > high ? high : v;
    y[i] = static_cast<T>(v);
  }
}

template <typename T, typename B>
void finish_as(const ConvFinish& f, void* y, const void* bias, const void* residual,
               cudaStream_t stream) {
  launch(finish_kernel<T, B>, extent_for(f.elements), stream, f, static_cast<T*>(y),
         static_cast<const B*>(bias), static_cast<const T*>(residual));
}

template <typename T>
void finish_of(const ConvFinish& f, void* y, const void* bias, const void* residual,
               cudaStream_t stream) {
  if (f.bias_type == ConvFinish::kF32) return finish_as<T, float>(f, y, bias, residual, stream);
  finish_as<T, T>(f, y, bias, residual, stream);
}

}  // namespace

void copy_strided(const StridedCopy& c, const void* from, void* to, cudaStream_t stream) {
  switch (c.element_bytes) {
    case 1:
      return copy_as<uint8_t>(c, from, to, stream);
    case 2:
      return copy_as<uint16_t>(c, from, to, stream);
    case 4:
      return copy_as<uint32_t>(c, from, to, stream);
    default:
      return copy_as<uint64_t>(c, from, to, stream);
  }
}

void finish(const ConvFinish& f, void* y, const void* bias, const void* residual,
            cudaStream_t stream) {
  switch (f.type) {
    case ConvFinish::kF32:
      return finish_as<float, float>(f, y, bias, residual, stream);
    case ConvFinish::kF16:
      return finish_of<__half>(f, y, bias, residual, stream);
    case ConvFinish::kBF16:
      return finish_of<__nv_bfloat16>(f, y, bias, residual, stream);
    case ConvFinish::kF64:
      return finish_as<double, double>(f, y, bias, residual, stream);
  }
}

}  // namespace ndtrain::cuda
