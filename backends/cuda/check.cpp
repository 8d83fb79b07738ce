#include "backends/cuda/check.h"

namespace ndtrain::cuda {
namespace {

// After these every call of the context fails the same way.
bool ends_the_context(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContextIsDestroyed:
    case cudaErrorDevicesUnavailable:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

bool of_a_capture(cudaError_t error) {
  return error >= cudaErrorStreamCaptureUnsupported && error <= cudaErrorStreamCaptureWrongThread;
}

std::string free_memory() {
  size_t free = 0, all = 0;
  if (cudaMemGetInfo(&free, &all) != cudaSuccess) return "";
  return text_of("; ", free, " of ", all, " bytes are free");
}

[[noreturn]] void fail_with(cudaError_t error, std::string_view what, std::string_view says) {
  cudaGetLastError();  // answered here: later calls must not find it again
  const std::string text = text_of(what, ": ", says);
  if (error == cudaErrorMemoryAllocation) throw Failure(NDT_OUT_OF_MEMORY, text + free_memory());
  if (ends_the_context(error)) {
    throw Failure(NDT_DEVICE_LOST, text + "; the device is lost to this process");
  }
  if (of_a_capture(error)) throw Unsupported(text);
  throw Failure(NDT_INVALID, text);
}

// A library tells less than the runtime knows.
[[noreturn]] void fail_in_library(cudaError_t as, std::string_view what, std::string_view says) {
  const cudaError_t known = cudaPeekAtLastError();
  if (!ends_the_context(known)) fail_with(as, what, says);
  fail_with(known, what, text_of(says, ", ", cudaGetErrorString(known)));
}

}  // namespace

void check(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return;
  fail_with(error, what, text_of(cudaGetErrorString(error), " (", cudaGetErrorName(error), ")"));
}

void check(cudnnStatus_t status, std::string_view what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char detail[512] = {};
  cudnnGetLastErrorString(detail, sizeof detail);
  const std::string says =
      text_of(cudnnGetErrorString(status), detail[0] ? ": " : "", static_cast<char*>(detail));
  constexpr int kPerCategory = 1000;  // CUDNN_STATUS_NOT_SUPPORTED_… are a category of statuses
  if (status / kPerCategory == CUDNN_STATUS_NOT_SUPPORTED / kPerCategory) {
    unsupported(what, ": ", says);
  }
  const bool memory = status == CUDNN_STATUS_ALLOC_FAILED;
  fail_in_library(memory ? cudaErrorMemoryAllocation : cudaErrorInvalidValue, what, says);
}

void check(cublasStatus_t status, std::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string says = text_of("cuBLASLt status ", static_cast<int>(status));
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH) {
    unsupported(what, ": ", says);
  }
  const bool memory = status == CUBLAS_STATUS_ALLOC_FAILED;
  fail_in_library(memory ? cudaErrorMemoryAllocation : cudaErrorInvalidValue, what, says);
}

}  // namespace ndtrain::cuda
