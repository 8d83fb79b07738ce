// Streams, events, copies and graphs of the fake.
#include <cstring>
#include <utility>
#include <vector>

#include "tests/cuda/fake_cudart_state.h"

namespace ndtrain::fake {
namespace {

cudaMemcpyKind kind_of(const void* dst, const void* src, size_t bytes) {
  const bool to = is_device(dst, bytes), from = is_device(src, bytes);
  return to && from ? cudaMemcpyDeviceToDevice
         : to       ? cudaMemcpyHostToDevice
         : from     ? cudaMemcpyDeviceToHost
                    : cudaMemcpyHostToHost;
}

const char* name_of(cudaMemcpyKind kind) {
  static constexpr const char* kNames[] = {" H2H", " H2D", " D2H", " D2D"};
  return kNames[kind];
}

bool is_pinned(const void* begin, size_t bytes) {
  const auto at = reinterpret_cast<uintptr_t>(begin);
  const std::lock_guard lock(state().mutex);
  auto after = state().pinned.upper_bound(at);
  if (after == state().pinned.begin()) return false;
  --after;
  return at + bytes <= after->first + after->second;
}

// Each side is of the kind that the caller says.
cudaError_t note_copy(const char* call, const void* dst, const void* src, size_t bytes,
                      cudaMemcpyKind said, cudaStream_t stream = nullptr) {
  const cudaMemcpyKind kind = kind_of(dst, src, bytes);
  const bool pinned = is_pinned(src, bytes) || is_pinned(dst, bytes);
  if (const cudaError_t error = note({std::string(call) + name_of(kind), bytes, stream, pinned})) {
    return error;
  }
  const bool right = bytes == 0 || said == cudaMemcpyDefault || said == kind;
  return right ? cudaSuccess : keep_last(cudaErrorInvalidValue);
}

}  // namespace

cudaError_t enqueue(cudaStream_t stream, const std::string& name, std::function<void()> work) {
  if (const cudaError_t error = note({name, 0, stream})) return error;
  perform(stream, std::move(work));
  return cudaSuccess;
}

cudaError_t enqueue_until(cudaStream_t stream, const std::string& name,
                          std::function<bool()> done) {
  if (const cudaError_t error = note({name, 0, stream})) return error;
  perform_until(stream, std::move(done));
  return cudaSuccess;
}

}  // namespace ndtrain::fake

using namespace ndtrain::fake;  // NOLINT(google-build-using-namespace): the C functions below

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  if (const cudaError_t error = note({"cudaStreamCreate"})) return error;
  *stream = new CUstream_st{current_device()};
  const std::lock_guard lock(state().mutex);
  state().streams.push_back(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const cudaError_t error = note({"cudaStreamDestroy"});
  if (!stream) return error;
  if (!error) work_until(mark_of(stream));
  delete stream->capture;
  {
    const std::lock_guard lock(state().mutex);
    std::erase(state().streams, stream);
    *stream->done = stream->queued;  // what a lost device had to do nobody waits for
  }
  delete stream;
  return error;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const cudaError_t error = note({"cudaStreamSynchronize"})) return error;
  if (stream && stream->capture) return keep_last(cudaErrorStreamCaptureUnsupported);
  work_until(mark_of(stream));
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  if (const cudaError_t error = note({"cudaDeviceSynchronize"})) return error;
  if (captures_of_this_thread()) return keep_last(cudaErrorStreamCaptureUnsupported);
  work_until_idle();
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (const cudaError_t error = note_copy("cudaMemcpyAsync", dst, src, bytes, kind, stream)) {
    return error;
  }
  if (bytes == 0) return cudaSuccess;
  const bool captured = stream && stream->capture;
  if (!captured && !is_device(src, bytes) && !is_pinned(src, bytes)) {
    const auto* from = static_cast<const std::byte*>(src);
    perform(stream, [dst, now = std::vector<std::byte>(from, from + bytes)] {
      std::memcpy(dst, now.data(), now.size());
    });
    return cudaSuccess;
  }
  perform(stream, [=] { std::memcpy(dst, src, bytes); });
  if (!captured && !is_device(dst, bytes) && !is_pinned(dst, bytes)) work_until(mark_of(stream));
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind) {
  if (const cudaError_t error = note_copy("cudaMemcpy", dst, src, bytes, kind)) return error;
  if (captures_of_this_thread()) return keep_last(cudaErrorStreamCaptureUnsupported);
  if (bytes) std::memcpy(dst, src, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* dst, int value, size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = note({"cudaMemsetAsync", bytes})) return error;
  if (bytes == 0) return cudaSuccess;
  if (!is_device(dst, bytes)) return keep_last(cudaErrorInvalidValue);
  perform(stream, [=] { std::memset(dst, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  if (const cudaError_t error = note({"cudaEventCreate"})) return error;
  *event = new CUevent_st{current_device()};
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return note({"cudaEventDestroy"});
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (const cudaError_t error = note({"cudaEventRecord", 0, stream})) return error;
  event->mark = mark_of(stream);
  const std::lock_guard lock(state().mutex);
  event->tick = ++state().tick;
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (const cudaError_t error = note({"cudaStreamWaitEvent", 0, stream})) return error;
  wait_on(stream, event->mark);
  return cudaSuccess;
}

// Not on record: it is asked without end.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  {
    const std::lock_guard lock(state().mutex);
    if (state().lost) return keep_last(state().lost);
  }
  if (!event->mark.reached()) work_a_little();
  return event->mark.reached() ? cudaSuccess : keep_last(cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const cudaError_t error = note({"cudaEventSynchronize"})) return error;
  work_until(event->mark);
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  if (const cudaError_t error = note({"cudaEventElapsedTime"})) return error;
  if (start->tick == 0 || end->tick == 0) return keep_last(cudaErrorInvalidResourceHandle);
  *ms = static_cast<float>(end->tick - start->tick);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (const cudaError_t error = note({"cudaStreamBeginCapture"})) return error;
  if (!stream || stream->capture) return keep_last(cudaErrorIllegalState);
  stream->capture = new CUgraph_st;
  ++captures_of_this_thread();
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (stream && stream->capture) {
    *graph = std::exchange(stream->capture, nullptr);
    --captures_of_this_thread();
  } else {
    return keep_last(cudaErrorIllegalState);
  }
  const cudaError_t error = note({"cudaStreamEndCapture"});
  if (error) delete std::exchange(*graph, nullptr);
  return error;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = stream && stream->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  if (const cudaError_t error = note({"cudaGraphInstantiate"})) return error;
  *exec = new CUgraphExec_st{graph->work};
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (const cudaError_t error = note({"cudaGraphLaunch", 0, stream})) return error;
  for (const auto& work : exec->work) perform(stream, work);
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return note({"cudaGraphDestroy"});
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return note({"cudaGraphExecDestroy"});
}
