#include "backends/nccl/device.h"

#include <cstdio>

#include "backends/nccl/answer.h"

namespace ndt_nccl {
namespace {

thread_local int device_of_thread = 0;

// As nvidia-smi -L writes it.
std::string name_of(const cudaUUID_t& uuid) {
  std::string name = "GPU";
  for (size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) name += '-';
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned>(uuid.bytes[i]) & 0xFFU);
    name += hex;
  }
  return name;
}

}  // namespace

ndt_comm_status use_device(int32_t index, char* name, size_t room) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    return answer(error, "cudaGetDeviceCount");
  }
  if (index < 0 || index >= count) {
    return refuse(NDT_COMM_INVALID, "there is no device " + std::to_string(index) + ", only " +
                                        std::to_string(count));
  }
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, index); error != cudaSuccess) {
    return answer(error, "cudaGetDeviceProperties");
  }
  const std::string text = name_of(properties.uuid);
  if (text.size() >= room) return refuse(NDT_COMM_INVALID, "no room for " + text);
  text.copy(name, text.size());
  name[text.size()] = '\0';
  device_of_thread = index;
  return NDT_COMM_OK;
}

int device_in_use() { return device_of_thread; }

}  // namespace ndt_nccl
