// What the parts of the fake share.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>

#include "tests/cuda/fake_cudart.h"

struct CUgraph_st {
  std::vector<std::function<void()>> work;
};

struct CUgraphExec_st {
  std::vector<std::function<void()>> work;
};

namespace ndtrain::fake {

// A place in the work of a stream, reached when as much of it is done.
struct Mark {
  std::shared_ptr<std::atomic<int64_t>> done;  // null: reached
  int64_t at = 0;

  bool reached() const { return !done || *done >= at; }
};

struct Work {
  std::function<void()> body;
  Mark after = {};
  std::function<bool()> ready = {};  // asked again and again; none: it is
};

}  // namespace ndtrain::fake

struct CUstream_st {
  int device = 0;
  CUgraph_st* capture = nullptr;  // owned while it captures
  std::deque<ndtrain::fake::Work> queue = {};
  int64_t queued = 0;  // ever
  std::shared_ptr<std::atomic<int64_t>> done = std::make_shared<std::atomic<int64_t>>(0);
};

struct CUevent_st {
  int device = 0;
  int64_t tick = 0;  // of the fake's clock when it was recorded; 0: never
  ndtrain::fake::Mark mark = {};
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

std::vector<DeviceKind> devices_of_environment();
std::optional<std::mt19937_64> lateness_of_environment();

struct State {
  std::mutex mutex;
  std::vector<DeviceKind> devices = devices_of_environment();
  cudaError_t driver_error = cudaSuccess;
  cudaError_t lost = cudaSuccess;
  std::vector<Order> orders;
  std::vector<Call> calls;
  std::map<uintptr_t, Allocation> allocations;  // by address
  std::map<uintptr_t, size_t> pinned;           // bytes by address
  std::vector<CUstream_st*> streams;
  bool limited = false;
  size_t free_bytes = 0;  // when limited
  int64_t tick = 0;
  std::optional<std::mt19937_64> late = lateness_of_environment();
};

State& state();
int current_device();
int& captures_of_this_thread();
cudaError_t keep_last(cudaError_t error);  // for cudaGetLastError()

// Puts work on a stream, or into what it captures.
void perform(cudaStream_t stream, std::function<void()> body);
void perform_until(cudaStream_t stream, std::function<bool()> done);
void wait_on(cudaStream_t stream, const Mark& mark);
Mark mark_of(cudaStream_t stream);  // the end of what it has been given
// Does the work that streams are ready for, one piece of each in turn, until the mark is reached.
// Ends the process when streams wait for each other.
void work_until(const Mark& mark);
void work_until_idle();
// As late as set_late() says.
void work_a_little();

}  // namespace ndtrain::fake
