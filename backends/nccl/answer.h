// What the plugin answers where a library fails.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <string>

#include "framework/comm/comm_abi.h"

namespace ndt_nccl {

// Of the calling thread: last_error() of the interface.
inline thread_local std::string why;

inline ndt_comm_status refuse(ndt_comm_status status, std::string reason) {
  why = std::move(reason);
  return status;
}

inline ndt_comm_status answer(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return NDT_COMM_OK;
  return refuse(NDT_COMM_LOST, std::string(call) + ": " + cudaGetErrorString(error));
}

inline ndt_comm_status answer(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return NDT_COMM_OK;
  std::string reason = std::string(call) + ": " + ncclGetErrorString(result);
  if (const char* const more = ncclGetLastError(nullptr); more && *more) {
    reason += std::string(": ") + more;
  }
  return refuse(result == ncclInvalidArgument ? NDT_COMM_INVALID : NDT_COMM_LOST, reason);
}

}  // namespace ndt_nccl
