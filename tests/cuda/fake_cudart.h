// A CUDA runtime without a device: memory is the host's, and streams do their work as late as they
// may: when one is waited for, all that no event holds back take turns, piece by piece, so that
// what is in no order by streams and events gets a bad one. Only pinned memory is read and written
// then; copies from other memory take its bytes at once, copies to it are waited for. It keeps a
// record of the calls, refuses what the real one refuses (an address that is no device memory, an
// allocation or a wait while this thread captures) and fails when it is told to. Thread-safe. Tests
// link it as the plugin does.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ndtrain::fake {

struct DeviceKind {
  std::string name = "Fake T4";
  int major = 7, minor = 5;
  size_t bytes = size_t{16} << 30;
};

// One device of the default kind, nothing ordered, an empty record. What is allocated stays. A
// process begins with as many devices as NDT_FAKE_GPUS says, and late by the seed NDT_FAKE_LATE.
void reset();

void set_devices(std::vector<DeviceKind> kinds);
// From now on streams do their work at random moments, though not all of it, also when somebody
// asks whether it is done: one piece of one stream, now and then. Before, one of each.
void set_late(uint64_t seed);
void set_driver_error(cudaError_t error);  // what asking for devices answers
void set_free_bytes(size_t bytes);         // on every device, from now on

// The n-th call of `name` from now (1: the next) fails. Errors after which a real context is lost
// (cudaErrorIllegalAddress, cudaErrorLaunchFailure, …) then fail every call until reset().
void fail(const std::string& name, int n, cudaError_t error);

struct Call {
  std::string name;  // "cudaMalloc", "cudaMemcpyAsync H2D", or what enqueue() was told
  size_t bytes = 0;
  const void* stream = nullptr;  // of work on one
  bool pinned = false;           // a copy whose host side is pinned memory
};
std::vector<Call> calls();
void forget_calls();
size_t count(const std::string& name);
size_t allocated_bytes();  // device memory that is not freed
size_t pinned_bytes();     // of the host, likewise

// The bytes lie in one allocation of device memory.
bool is_device(const void* begin, size_t bytes = 1);

// Work of a library or kernel on a stream, in the order of the stream; `name` goes on record.
// Answers what was ordered for this call.
cudaError_t enqueue(cudaStream_t stream, const std::string& name, std::function<void()> work);

// Likewise work that others decide on: it is done when `done` answers so, which is asked again and
// again once the work before it is.
cudaError_t enqueue_until(cudaStream_t stream, const std::string& name, std::function<bool()> done);

// Puts a call on record, answers what was ordered.
cudaError_t note(const Call& call);

}  // namespace ndtrain::fake
