// Return codes of CUDA, cuDNN and cuBLASLt as exceptions that carry the ABI's status. Every call is
// checked: running out of memory is NDT_OUT_OF_MEMORY with what was asked for and what was free, an
// error after which no call of this process's context succeeds is NDT_DEVICE_LOST.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <string_view>

#include "backends/plugin/answer.h"

namespace ndtrain::cuda {

using namespace plugin;  // NOLINT(google-build-using-namespace): all of it, here

void check(cudaError_t error, std::string_view what);
void check(cudnnStatus_t status, std::string_view what);
void check(cublasStatus_t status, std::string_view what);

}  // namespace ndtrain::cuda
