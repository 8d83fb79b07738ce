// Device memory that a kernel or a cache owns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "backends/cuda/device.h"

namespace ndtrain::cuda {

class Memory {
 public:
  Memory(const ndt_device& device, size_t bytes);  // throws Failure NDT_OUT_OF_MEMORY
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* data() const { return data_; }

 private:
  const int device_;
  void* data_ = nullptr;
};

// The constant `id` (0: nobody shares it) in the form named `form` ("channels-last f16"), one copy
// on a device for all kernels and plans that want the same: equal ids mean equal bytes, and what is
// kept lives as long as a kernel that uses it. `pack` writes the form into host memory of `bytes`.
std::shared_ptr<const Memory> packed_weights(const ndt_device& device, uint64_t id,
                                             const std::string& form, size_t bytes,
                                             const std::function<void(void*)>& pack);

}  // namespace ndtrain::cuda
