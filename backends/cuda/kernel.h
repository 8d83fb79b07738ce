// The form of a kernel, and of an op: a pair of functions, what layouts it would rather have, and
// the kernel for the layouts it got.
#pragma once

#include <memory>
#include <utility>

#include "backends/cuda/device.h"
#include "backends/plugin/node.h"

// Immutable: run() may be called on several streams at once, each with its own workspace. It
// enqueues: it neither allocates, nor waits, nor copies from the host's memory, so that a stream
// may be captured into a CUDA graph. All pointers are device memory, aligned to 256 bytes at the
// begin of a buffer and to 16 everywhere.
struct ndt_kernel {
  virtual ~ndt_kernel() = default;
  virtual void run(ndt_stream& stream, const void* const* in, void* const* out,
                   void* workspace) const = 0;

  size_t workspace_bytes = 0;
  uint64_t packed_inputs = 0;  // see ndt_prepared
  uint64_t in_place_inputs = 0;
};

namespace ndtrain::cuda {

using Kernel = ndt_kernel;

struct Op {
  // Throws Unsupported with the reason. The device is current.
  std::unique_ptr<Kernel> (*prepare)(ndt_device& device, const Node& node);
  // The types come as they are; constants stay plain. Throws Unsupported: all plain. Null: the
  // same.
  void (*prefer)(const ndt_device& device, const Node& node, ndt_tensor_type* in,
                 ndt_tensor_type* out);
};

// A kernel from a callable (stream, in, out, workspace), for those that keep no state worth a
// class.
template <typename F>
std::unique_ptr<Kernel> kernel(F run) {
  struct Callable final : Kernel {
    explicit Callable(F f) : f_(std::move(f)) {}
    void run(ndt_stream& stream, const void* const* in, void* const* out,
             void* workspace) const override {
      f_(stream, in, out, workspace);
    }
    F f_;
  };
  return std::make_unique<Callable>(std::move(run));
}

}  // namespace ndtrain::cuda
