// What the kernels of backends/cuda need to be compiled by a plain C++ compiler and run on the
// host, included before everything else of a source (-include). Blocks run one after the other; the
// threads of a block take turns, each with its own stack, and change only where they wait for each
// other. Several host threads may run kernels at once.
//
// The process ends, saying why, when some threads of a block are done or at a shuffle while others
// are at a barrier: on a device they would wait for ever, or go on with a wrong value.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <functional>

#undef __shared__
#define __shared__ static thread_local

namespace ndtrain::cuda::emulation {

struct Place {
  dim3 thread, block, grid, threads;
};
extern thread_local Place here;  // of the thread that runs

// Puts the work on the stream, by the fake runtime.
void launch(unsigned blocks, unsigned threads, cudaStream_t stream, std::function<void()> kernel);

// Runs it now. `threads` is a multiple of 32, at most 1024.
void run_blocks(unsigned blocks, unsigned threads, const std::function<void()>& kernel);

void barrier();
uint64_t exchange(uint64_t bits, unsigned lane_mask);  // with the lane this ^ lane_mask

template <typename T>
T shuffle_xor(T value, unsigned lane_mask) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = exchange(bits, lane_mask);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace ndtrain::cuda::emulation

#define threadIdx (::ndtrain::cuda::emulation::here.thread)
#define blockIdx (::ndtrain::cuda::emulation::here.block)
#define gridDim (::ndtrain::cuda::emulation::here.grid)
#define blockDim (::ndtrain::cuda::emulation::here.threads)

inline void __syncthreads() { ndtrain::cuda::emulation::barrier(); }

template <typename T>
T __shfl_xor_sync(unsigned, T value, int lane_mask) {
  return ndtrain::cuda::emulation::shuffle_xor(value, static_cast<unsigned>(lane_mask));
}

template <typename T>
T atomicAdd(T* address, T value) {
  return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}
