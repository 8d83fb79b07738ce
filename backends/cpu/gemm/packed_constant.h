// Packed copies of constant weights, shared by all kernels of the process that want the same ones:
// plans of different batch size hold one copy.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace ndtrain::cpu {

struct FreeDeleter {
  void operator()(void* p) const;
};

// 64-byte aligned, uninitialised. Throws std::bad_alloc.
std::unique_ptr<std::byte[], FreeDeleter> aligned_bytes(size_t bytes);

// The packed form of constant `id` in `layout` (which says everything the packing depends on), made
// by `pack` unless some kernel still holds one. id 0 is never shared. Thread-safe.
std::shared_ptr<const std::byte[]> packed_constant(uint64_t id, const std::string& layout,
                                                   size_t bytes,
                                                   const std::function<void(void*)>& pack);

}  // namespace ndtrain::cpu
