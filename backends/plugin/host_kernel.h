// The form of a kernel that computes in the host's threads and memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "framework/runtime/backend_abi.h"

// Immutable: run() may be called on several streams at once, and neither allocates nor throws.
struct ndt_kernel {
  virtual ~ndt_kernel() = default;
  // A 64-byte aligned workspace. An absent optional input and an input packed at prepare() may be
  // null.
  virtual void run(const void* const* in, void* const* out, void* workspace) const = 0;

  size_t workspace_bytes = 0;
  uint64_t packed_inputs = 0;  // see ndt_prepared
  uint64_t in_place_inputs = 0;
};

namespace ndtrain::plugin {

using Kernel = ndt_kernel;

// A kernel from a callable (in, out, workspace), for those that keep no state worth a class.
template <typename F>
std::unique_ptr<Kernel> kernel(F run) {
  struct Callable final : Kernel {
    explicit Callable(F f) : f_(std::move(f)) {}
    void run(const void* const* in, void* const* out, void* workspace) const override {
      f_(in, out, workspace);
    }
    F f_;
  };
  return std::make_unique<Callable>(std::move(run));
}

}  // namespace ndtrain::plugin
