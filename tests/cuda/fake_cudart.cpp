#include "tests/cuda/fake_cudart.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/cuda/fake_cudart_state.h"

namespace ndtrain::fake {
namespace {

constexpr int kVersion = 13000;
constexpr size_t kAlignment = 256;

thread_local int device_of_thread = 0;
thread_local int captures = 0;
thread_local cudaError_t last = cudaSuccess;

bool ends_the_context(cudaError_t e) {
  return e == cudaErrorIllegalAddress || e == cudaErrorLaunchFailure ||
         e == cudaErrorECCUncorrectable || e == cudaErrorHardwareStackError ||
         e == cudaErrorIllegalInstruction || e == cudaErrorMisalignedAddress ||
         e == cudaErrorLaunchTimeout || e == cudaErrorAssert;
}

size_t used(const State& s, int device) {
  size_t bytes = 0;
  for (const auto& [address, a] : s.allocations) bytes += a.device == device ? a.bytes : 0;
  return bytes;
}

size_t free_now(const State& s, int device) {
  if (s.limited) return s.free_bytes;
  const size_t all = s.devices.at(static_cast<size_t>(device)).bytes;
  return all - std::min(all, used(s, device));
}

}  // namespace

std::vector<DeviceKind> devices_of_environment() {
  const char* const text = std::getenv("NDT_FAKE_GPUS");
  return std::vector<DeviceKind>(text ? std::strtoul(text, nullptr, 10) : 1);
}

std::optional<std::mt19937_64> lateness_of_environment() {
  const char* const text = std::getenv("NDT_FAKE_LATE");
  if (!text) return {};
  return std::mt19937_64(std::strtoull(text, nullptr, 10));
}

State& state() {
  static State s;
  return s;
}

int current_device() { return device_of_thread; }
int& captures_of_this_thread() { return captures; }

cudaError_t keep_last(cudaError_t error) {
  if (error != cudaSuccess) last = error;
  return error;
}

void reset() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.devices = {DeviceKind{}};
  s.driver_error = s.lost = cudaSuccess;
  s.orders.clear();
  s.calls.clear();
  s.limited = false;
  s.late.reset();
  last = cudaSuccess;
  device_of_thread = 0;
}

void set_devices(std::vector<DeviceKind> kinds) {
  const std::lock_guard lock(state().mutex);
  state().devices = std::move(kinds);
}

void set_late(uint64_t seed) {
  const std::lock_guard lock(state().mutex);
  state().late.emplace(seed);
}

void set_driver_error(cudaError_t error) {
  const std::lock_guard lock(state().mutex);
  state().driver_error = error;
}

void set_free_bytes(size_t bytes) {
  const std::lock_guard lock(state().mutex);
  state().limited = true;
  state().free_bytes = bytes;
}

void fail(const std::string& name, int n, cudaError_t error) {
  const std::lock_guard lock(state().mutex);
  state().orders.push_back({name, n, error});
}

std::vector<Call> calls() {
  const std::lock_guard lock(state().mutex);
  return state().calls;
}

void forget_calls() {
  const std::lock_guard lock(state().mutex);
  state().calls.clear();
}

size_t count(const std::string& name) {
  const std::lock_guard lock(state().mutex);
  return static_cast<size_t>(std::ranges::count(state().calls, name, &Call::name));
}

size_t allocated_bytes() {
  const std::lock_guard lock(state().mutex);
  size_t bytes = 0;
  for (const auto& [address, a] : state().allocations) bytes += a.bytes;
  return bytes;
}

size_t pinned_bytes() {
  const std::lock_guard lock(state().mutex);
  size_t bytes = 0;
  for (const auto& [address, size] : state().pinned) bytes += size;
  return bytes;
}

bool is_device(const void* begin, size_t bytes) {
  const auto at = reinterpret_cast<uintptr_t>(begin);
  const std::lock_guard lock(state().mutex);
  auto after = state().allocations.upper_bound(at);
  if (after == state().allocations.begin()) return false;
  --after;
  return at + bytes <= after->first + after->second.bytes;
}

cudaError_t note(const Call& call) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.calls.push_back(call);
  for (Order& order : s.orders) {
    if (order.name != call.name || order.calls_left <= 0 || --order.calls_left > 0) continue;
    if (ends_the_context(order.error)) s.lost = order.error;
    return keep_last(order.error);
  }
  return keep_last(s.lost);
}

}  // namespace ndtrain::fake

using namespace ndtrain::fake;  // NOLINT(google-build-using-namespace): the C functions below

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (const cudaError_t error = note({"cudaGetDeviceCount"})) return error;
  const std::lock_guard lock(state().mutex);
  if (state().driver_error) return keep_last(state().driver_error);
  *count = static_cast<int>(state().devices.size());
  return keep_last(*count ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaGetDevice(int* device) {
  *device = device_of_thread;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  const std::lock_guard lock(state().mutex);
  const auto count = static_cast<int>(state().devices.size());
  if (device < 0 || device >= count) return keep_last(cudaErrorInvalidDevice);
  device_of_thread = device;
  return keep_last(state().lost);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  if (const cudaError_t error = note({"cudaGetDeviceProperties"})) return error;
  const std::lock_guard lock(state().mutex);
  if (device < 0 || device >= static_cast<int>(state().devices.size())) {
    return keep_last(cudaErrorInvalidDevice);
  }
  const DeviceKind& kind = state().devices[static_cast<size_t>(device)];
  std::memset(prop, 0, sizeof *prop);
  std::strncpy(prop->name, kind.name.c_str(), sizeof prop->name - 1);
  std::memset(prop->uuid.bytes, device + 1, sizeof prop->uuid.bytes);
  prop->pciBusID = device + 1;
  prop->major = kind.major;
  prop->minor = kind.minor;
  prop->totalGlobalMem = kind.bytes;
  prop->multiProcessorCount = 40;
  prop->maxThreadsPerBlock = 1024;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = state().driver_error ? 0 : kVersion;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  if (const cudaError_t error = note({"cudaMemGetInfo"})) return error;
  const std::lock_guard lock(state().mutex);
  *free = free_now(state(), device_of_thread);
  *total = state().devices.at(static_cast<size_t>(device_of_thread)).bytes;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** ptr, size_t bytes) {
  *ptr = nullptr;
  if (const cudaError_t error = note({"cudaMalloc", bytes})) return error;
  if (captures > 0) return keep_last(cudaErrorStreamCaptureUnsupported);
  if (bytes == 0) return cudaSuccess;
  const std::lock_guard lock(state().mutex);
  if (bytes > free_now(state(), device_of_thread)) return keep_last(cudaErrorMemoryAllocation);
  void* memory = nullptr;  // of exactly this size, so that a sanitizer sees any overrun
  if (posix_memalign(&memory, kAlignment, bytes)) return keep_last(cudaErrorMemoryAllocation);
  std::memset(memory, 0xFF, bytes);
  state().allocations[reinterpret_cast<uintptr_t>(memory)] = {bytes, device_of_thread};
  if (state().limited) state().free_bytes -= bytes;
  *ptr = memory;
  return cudaSuccess;
}

cudaError_t cudaFree(void* ptr) {
  const cudaError_t error = note({"cudaFree"});  // what a lost device had is gone all the same
  if (!ptr) return error;
  if (!error) work_until_idle();
  const std::lock_guard lock(state().mutex);
  const auto found = state().allocations.find(reinterpret_cast<uintptr_t>(ptr));
  if (found == state().allocations.end()) return error ? error : keep_last(cudaErrorInvalidValue);
  if (state().limited) state().free_bytes += found->second.bytes;
  state().allocations.erase(found);
  std::free(ptr);
  return error;
}

cudaError_t cudaHostAlloc(void** ptr, size_t bytes, unsigned) {
  *ptr = nullptr;
  if (const cudaError_t error = note({"cudaHostAlloc", bytes})) return error;
  if (captures > 0) return keep_last(cudaErrorStreamCaptureUnsupported);
  if (posix_memalign(ptr, kAlignment, std::max<size_t>(bytes, 1))) {
    return keep_last(cudaErrorMemoryAllocation);
  }
  const std::lock_guard lock(state().mutex);
  state().pinned[reinterpret_cast<uintptr_t>(*ptr)] = bytes;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* ptr) {
  const cudaError_t error = note({"cudaFreeHost"});  // as above
  const std::lock_guard lock(state().mutex);
  if (ptr && state().pinned.erase(reinterpret_cast<uintptr_t>(ptr)) == 0)
    return error ? error : keep_last(cudaErrorInvalidValue);
  std::free(ptr);
  return error;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = last;
  const std::lock_guard lock(state().mutex);
  last = state().lost;
  return error;
}

cudaError_t cudaPeekAtLastError() { return last; }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    default:
      return "cudaError";
  }
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    default:
      return "an error that the fake was told to give";
  }
}
