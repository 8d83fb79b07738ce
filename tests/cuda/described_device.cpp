#include "tests/cuda/described_device.h"

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>

namespace ndtrain::described {
namespace {

Answers noted;
cudnnBackendDescriptor_t properties = nullptr;
std::map<cudnnBackendDescriptor_t, cudnnBackendDescriptorType_t> types;
int64_t operations_set =
    0;  // in the graph that was made last: a plan is made right after its graph

// The library's own function of this name, which the one here hides.
template <typename F>
F* library(F*, const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}
#define LIBRARY(name) static const auto name##_of_library = library(&(name), #name)

std::string json_of(const Chip& c) {
  std::ostringstream s;
  s << R"({"cudaDeviceId":0,"deviceId":0,"pciDeviceId":0,"driverVer":)" << CUDART_VERSION
    << R"(,"deviceName":")" << c.name << R"(","deviceVer":)" << c.architecture * 10
    << R"(,"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64])"
    << R"(,"warpSize":32,"maxThreadsPerBlock":1024,"regsPerBlock":65536)"
    << R"(,"maxRegistersPerSM":65536,"maxSharedMemoryPerBlock":49152)"
    << R"(,"maxSharedMemoryPerBlockOptin":)" << c.shared_bytes
    << R"(,"reservedSharedMemoryPerBlock":)" << c.reserved_shared_bytes
    << R"(,"multiProcessorCount":)" << c.processors << R"(,"maxCtasPerSM":)"
    << c.blocks_per_processor << R"(,"maxThreadsPerSM":)" << c.threads_per_processor
    << R"(,"isTccDriver":0,"supportCoopLaunch":1,"smClockRateKHz":)" << c.clock_khz
    << R"(,"memClockRateKHz":)" << c.memory_clock_khz << R"(,"l2CacheSize":)" << c.cache_bytes
    << R"(,"totalGlobalMem":)" << c.memory_bytes << "}";
  return s.str();
}

std::string refusal(const char* what, cudnnStatus_t status) {
  char detail[512] = {};
  cudnnGetLastErrorString(detail, sizeof detail);
  return std::string("cuDNN ") + std::to_string(cudnnGetVersion()) + " does not " + what + ": " +
         cudnnGetErrorString(status) + " " + detail;
}

void give_properties(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name) {
  if (!properties) return;
  (void)cudnnBackendSetAttribute(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &properties);
}

void note_finalized(cudnnBackendDescriptorType_t type, cudnnStatus_t status) {
  const bool done = status == CUDNN_STATUS_SUCCESS;
  if (type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) noted.graphs += done;
  if (type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) return;
  const bool unloaded = status == CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER;
  noted.plans += done;
  noted.unloaded += unloaded;
  if (done || unloaded) noted.operations.push_back(operations_set);
}

}  // namespace

constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB;
const Chip kT4 = {"Tesla T4", 75,       40,           1024,    16,     64 * kKiB,
                  0,          4 * kMiB, 15110 * kMiB, 1590000, 5001000};
const Chip kA100 = {"NVIDIA A100-SXM4-40GB",
                    80,
                    108,
                    2048,
                    32,
                    163 * kKiB,
                    kKiB,
                    40 * kMiB,
                    40536 * kMiB,
                    1410000,
                    1215000};
const Chip kH100 = {"NVIDIA H100 80GB HBM3",
                    90,
                    132,
                    2048,
                    32,
                    227 * kKiB,
                    kKiB,
                    50 * kMiB,
                    81092 * kMiB,
                    1980000,
                    2619000};

std::string describe(const Chip& chip) {
  const std::string json = json_of(chip);
  properties = nullptr;
  cudnnBackendDescriptor_t made = nullptr;
  cudnnStatus_t status = cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &made);
  if (status != CUDNN_STATUS_SUCCESS) return refusal("describe devices", status);
  status =
      cudnnBackendSetAttribute(made, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                               static_cast<int64_t>(json.size()), json.data());
  if (status == CUDNN_STATUS_SUCCESS) status = cudnnBackendFinalize(made);
  if (status != CUDNN_STATUS_SUCCESS) return refusal("take a device described as JSON", status);
  properties = made;
  return "";
}

const Answers& answers() { return noted; }
void reset() { noted = {}; }

}  // namespace ndtrain::described

using namespace ndtrain::described;  // NOLINT(google-build-using-namespace): the calls' own file

// Weights that are packed for a plan need a place, which is all that is asked of the runtime.
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int) { return cudaSuccess; }

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  *memory = std::malloc(bytes);
  return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = nullptr;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t) { return CUDNN_STATUS_SUCCESS; }

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  LIBRARY(cudnnBackendCreateDescriptor);
  const cudnnStatus_t status = cudnnBackendCreateDescriptor_of_library(type, descriptor);
  if (status == CUDNN_STATUS_SUCCESS) types[*descriptor] = type;
  return status;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t n,
                                       const void* values) {
  LIBRARY(cudnnBackendSetAttribute);
  if (type == CUDNN_TYPE_HANDLE) return CUDNN_STATUS_SUCCESS;
  if (name == CUDNN_ATTR_OPERATIONGRAPH_OPS) operations_set = n;
  return cudnnBackendSetAttribute_of_library(descriptor, name, type, n, values);
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t most, int64_t* n,
                                       void* values) {
  LIBRARY(cudnnBackendGetAttribute);
  const cudnnStatus_t status =
      cudnnBackendGetAttribute_of_library(descriptor, name, type, most, n, values);
  if (status != CUDNN_STATUS_SUCCESS || !values) return status;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) noted.suggested += static_cast<int>(*n);
  if (name == CUDNN_ATTR_ENGINECFG_KNOB_CHOICES) ++noted.allowed;  // others' knobs are not read
  return status;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  LIBRARY(cudnnBackendFinalize);
  const cudnnBackendDescriptorType_t type = types[descriptor];
  if (type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) {
    give_properties(descriptor, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
  } else if (type == CUDNN_BACKEND_ENGINE_DESCRIPTOR) {
    give_properties(descriptor, CUDNN_ATTR_ENGINE_DEVICEPROP);
  }
  const cudnnStatus_t status = cudnnBackendFinalize_of_library(descriptor);
  note_finalized(type, status);
  return status;
}
