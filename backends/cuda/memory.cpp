#include "backends/cuda/memory.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

namespace ndtrain::cuda {
namespace {

using Key = std::tuple<int, uint64_t, std::string>;  // device, constant, form

std::mutex mutex;

std::map<Key, std::weak_ptr<const Memory>>& kept() {
  static std::map<Key, std::weak_ptr<const Memory>> by_key;
  return by_key;
}

std::shared_ptr<const Memory> uploaded(const ndt_device& device, size_t bytes,
                                       const std::function<void(void*)>& pack) {
  std::vector<std::byte> packed(bytes);
  pack(packed.data());
  auto memory = std::make_shared<const Memory>(device, bytes);
  const Current current(device);
  if (bytes == 0) return memory;
  check(cudaMemcpy(memory->data(), packed.data(), bytes, cudaMemcpyHostToDevice),
        text_of("upload ", bytes, " bytes of weights"));
  // The copy may be on its way still, and other streams do not wait for this one.
  check(cudaStreamSynchronize(nullptr), "wait for weights");
  return memory;
}

}  // namespace

Memory::Memory(const ndt_device& device, size_t bytes) : device_(device.index) {
  const Current current(device);
  check(cudaMalloc(&data_, std::max<size_t>(bytes, 1)),
        text_of("allocate ", bytes, " bytes on device ", device.index));
}

Memory::~Memory() {
  int before = 0;
  cudaGetDevice(&before);
  cudaSetDevice(device_);
  cudaFree(data_);
  cudaSetDevice(before);
}

std::shared_ptr<const Memory> packed_weights(const ndt_device& device, uint64_t id,
                                             const std::string& form, size_t bytes,
                                             const std::function<void(void*)>& pack) {
  if (id == 0) return uploaded(device, bytes, pack);
  const std::lock_guard lock(mutex);
  std::erase_if(kept(), [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<const Memory>& place = kept()[{device.index, id, form}];
  if (auto memory = place.lock()) return memory;
  auto memory = uploaded(device, bytes, pack);
  place = memory;
  return memory;
}

}  // namespace ndtrain::cuda
