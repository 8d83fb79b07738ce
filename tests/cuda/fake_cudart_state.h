// What the parts of the fake share.
#pragma once

#include <map>
#include <mutex>
#include <set>

#include "tests/cuda/fake_cudart.h"

struct CUgraph_st {
  std::vector<std::function<void()>> work;
};

struct CUgraphExec_st {
  std::vector<std::function<void()>> work;
};

struct CUstream_st {
  int device = 0;
  CUgraph_st* capture = nullptr;  // owned while it captures
};

struct CUevent_st {
  int device = 0;
  int64_t tick = 0;  // of the fake's clock when it was recorded; 0: never
};

namespace ndtrain::fake {

struct Allocation {
  size_t bytes;
  int device;
};

struct Order {
  std::string name;
  int calls_left;
  cudaError_t error;
};

struct State {
  std::mutex mutex;
  std::vector<DeviceKind> devices = {DeviceKind{}};
  cudaError_t driver_error = cudaSuccess;
  cudaError_t lost = cudaSuccess;
  std::vector<Order> orders;
  std::vector<Call> calls;
  std::map<uintptr_t, Allocation> allocations;  // by address
  std::set<void*> pinned;
  bool limited = false;
  size_t free_bytes = 0;  // when limited
  int64_t tick = 0;
};

State& state();
int current_device();
int& captures_of_this_thread();
cudaError_t keep_last(cudaError_t error);  // for cudaGetLastError()

}  // namespace ndtrain::fake
