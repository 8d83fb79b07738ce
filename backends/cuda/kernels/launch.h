// How a kernel is started: `launch(kernel, {blocks, threads}, stream, arguments…)`. No source of
// the plugin writes <<<>>>, so that a test can build the same sources for the host, where
// NDT_CUDA_EMULATED runs blocks one after the other and the threads of a block as fibers
// (tests/cuda/emulation.h, included before everything). Kernels use __syncthreads, __shfl_xor_sync
// with the full mask, __shared__ arrays of fixed size, atomicAdd, threadIdx, blockIdx, blockDim and
// gridDim, in one dimension of threads, and nothing else of the device.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string_view>

namespace ndtrain::cuda {

// As in check.h, whose libraries kernels need not know.
void check(cudaError_t error, std::string_view what);

struct Extent {
  unsigned grid = 1, block = 256;
};

template <typename T>
struct As {
  using Type = T;
};

#ifdef NDT_CUDA_EMULATED
namespace emulation {
void launch(unsigned blocks, unsigned threads, cudaStream_t stream, std::function<void()> kernel);
}

template <typename... P>
void launch(void (*kernel)(P...), Extent extent, cudaStream_t stream,
            typename As<P>::Type... arguments) {
  emulation::launch(extent.grid, extent.block, stream, [=] { kernel(arguments...); });
}
#else
template <typename... P>
void launch(void (*kernel)(P...), Extent extent, cudaStream_t stream,
            typename As<P>::Type... arguments) {
  void* addresses[] = {&arguments...};
  check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(extent.grid),
                         dim3(extent.block), addresses, 0, stream),
        "start a kernel");
}
#endif

// Blocks enough for n elements, each thread taking `each` of them; a grid-stride loop does the
// rest.
inline Extent extent_for(int64_t n, int64_t each = 1) {
  constexpr int64_t kBlock = 256, kMostBlocks = 65535;
  const int64_t blocks = (n + kBlock * each - 1) / (kBlock * each);
  return {static_cast<unsigned>(std::clamp<int64_t>(blocks, 1, kMostBlocks)),
          static_cast<unsigned>(kBlock)};
}

}  // namespace ndtrain::cuda
