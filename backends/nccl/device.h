// The device that a rank computes on.
#pragma once

#include <cstddef>
#include <cstdint>

#include "framework/comm/comm_abi.h"

namespace ndt_nccl {

// Of the worlds that this thread begins; `name` is "GPU-" and the device's UUID.
ndt_comm_status use_device(int32_t index, char* name, size_t room);
int device_in_use();

}  // namespace ndt_nccl
