#include "tests/cuda/fake_cudnn_handle.h"

#include "tests/cuda/fake_cudart.h"

using ndtrain::fake::note;

size_t cudnnGetVersion() { return CUDNN_VERSION; }

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = nullptr;
  switch (note({"cudnnCreate"})) {
    case cudaSuccess:
      *handle = new cudnnContext;
      return CUDNN_STATUS_SUCCESS;
    case cudaErrorMemoryAllocation:
      return CUDNN_STATUS_ALLOC_FAILED;
    default:
      return CUDNN_STATUS_NOT_INITIALIZED;
  }
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  note({"cudnnDestroy"});
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  *stream = handle->stream;
  return CUDNN_STATUS_SUCCESS;
}

const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS         ? "CUDNN_STATUS_SUCCESS"
         : status == CUDNN_STATUS_ALLOC_FAILED  ? "CUDNN_STATUS_ALLOC_FAILED"
         : status == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
                                                : "CUDNN_STATUS of the fake";
}
