// The C ABI of the cuda plugin.
#include <algorithm>
#include <new>
#include <utility>

#include "backends/cuda/devices.h"
#include "backends/cuda/graph.h"
#include "backends/cuda/ops.h"
#include "backends/plugin/op.h"

// Its work may be awaited by other streams of its device.
struct ndt_event {
  const ndt_device& device;
  cudaEvent_t event = nullptr;
};

namespace ndtrain::cuda {
namespace {

constexpr const char* kName = "cuda";

// No driver, or one that is too old, is a machine without devices: last_error() says why.
ndt_status device_count(int32_t* count) {
  *count = 0;
  const ndt_status status = guarded("device_count", [&] {
    *count = count_devices();
    return NDT_OK;
  });
  if (status != NDT_OK) log(Level::kDebug, last_error());
  return NDT_OK;
}

ndt_status open(int32_t index, const ndt_options* options, ndt_device** device) {
  return guarded("open", [&] {
    *device = open_device(index, options).release();
    return NDT_OK;
  });
}

void close(ndt_device* device) { CloseDevice{}(device); }

ndt_status alloc(ndt_device* device, size_t bytes, void** ptr) {
  *ptr = nullptr;
  return guarded("alloc", [&] {
    const Current current(*device);
    check(cudaMalloc(ptr, std::max<size_t>(bytes, 1)),
          text_of("allocate ", bytes, " bytes on device ", device->index, " (", device->name, ")"));
    return NDT_OK;
  });
}

void release_memory(ndt_device* device, void* ptr) {
  guarded("free", [&] {
    const Current current(*device);
    check(cudaFree(ptr), "free device memory");
    return NDT_OK;
  });
}

ndt_status host_alloc(ndt_device* device, size_t bytes, void** ptr) {
  *ptr = nullptr;
  return guarded("host_alloc", [&] {
    const Current current(*device);
    check(cudaHostAlloc(ptr, std::max<size_t>(bytes, 1), cudaHostAllocPortable),
          text_of("pin ", bytes, " bytes of host memory"));
    return NDT_OK;
  });
}

void host_free(ndt_device*, void* ptr) {
  guarded("host_free", [&] {
    check(cudaFreeHost(ptr), "free pinned memory");
    return NDT_OK;
  });
}

void stream_destroy(ndt_stream* stream) {
  if (!stream) return;
  if (stream->dnn) cudnnDestroy(stream->dnn);
  if (stream->stream) cudaStreamDestroy(stream->stream);
  if (stream->fault) cudaFreeHost(stream->fault);
  delete stream;
}

ndt_status stream_create(ndt_device* device, ndt_stream** stream) {
  return guarded("stream_create", [&] {
    const Current current(*device);
    std::unique_ptr<ndt_stream, void (*)(ndt_stream*)> made(new ndt_stream{*device},
                                                            stream_destroy);
    check(cudaStreamCreateWithFlags(&made->stream, cudaStreamNonBlocking), "create a stream");
    check(cudnnCreate(&made->dnn), "open cuDNN");
    check(cudnnSetStream(made->dnn, made->stream), "give cuDNN its stream");
    void* fault = nullptr;
    check(cudaHostAlloc(&fault, sizeof(Fault), cudaHostAllocMapped), "pin a stream's memory");
    made->fault = new (fault) Fault;
    *stream = made.release();
    return NDT_OK;
  });
}

ndt_status stream_wait(ndt_stream* stream) {
  return guarded("stream_wait", [&] {
    const Current current(stream->device);
    check(cudaStreamSynchronize(stream->stream), "wait for a stream");
    const Fault found = std::exchange(*stream->fault, Fault{});
    if (found.is_set) {
      invalid("label ", found.label, " of row ", found.row, " is none of ", found.classes,
              " classes");
    }
    return NDT_OK;
  });
}

// Where a pointer points to, the runtime knows. Copies from pinned memory do not wait.
ndt_status copy(ndt_stream* stream, void* dst, const void* src, size_t bytes) {
  return guarded("copy", [&] {
    const Current current(stream->device);
    if (bytes == 0) return NDT_OK;
    check(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream->stream),
          text_of("copy ", bytes, " bytes"));
    return NDT_OK;
  });
}

ndt_status prefer(ndt_device* device, const ndt_node* node, ndt_tensor_type* inputs,
                  ndt_tensor_type* outputs) {
  return guarded("prefer", [&] {
    const Current current(*device);
    with_op(kName, node, find_op, [&](const Op& op, const Node& view) {
      if (!op.prefer) unsupported("it has no preference");
      op.prefer(*device, view, inputs, outputs);
    });
    return NDT_OK;
  });
}

ndt_status prepare(ndt_device* device, const ndt_node* node, ndt_prepared* out) {
  return prepare_op(kName, node, out, find_op, [&](const Op& op, const Node& view) {
    if (!device) invalid("null argument");
    const Current current(*device);
    return op.prepare(*device, view);
  });
}

ndt_status run(const ndt_kernel* kernel, ndt_stream* stream, const void* const* inputs,
               void* const* outputs, void* workspace) {
  return guarded("run", [&] {
    const Current current(stream->device);
    kernel->run(*stream, inputs, outputs, workspace);
    return NDT_OK;
  });
}

void event_destroy(ndt_event* event) {
  if (!event) return;
  if (event->event) cudaEventDestroy(event->event);
  delete event;
}

ndt_status event_create(ndt_device* device, ndt_event** event) {
  return guarded("event_create", [&] {
    const Current current(*device);
    std::unique_ptr<ndt_event, void (*)(ndt_event*)> made(new ndt_event{*device}, event_destroy);
    check(cudaEventCreateWithFlags(&made->event, cudaEventDisableTiming), "create an event");
    *event = made.release();
    return NDT_OK;
  });
}

ndt_status event_record(ndt_stream* stream, ndt_event* event) {
  return guarded("event_record", [&] {
    const Current current(stream->device);
    check(cudaEventRecord(event->event, stream->stream), "record an event");
    return NDT_OK;
  });
}

ndt_status event_wait(ndt_stream* stream, ndt_event* event) {
  return guarded("event_wait", [&] {
    const Current current(stream->device);
    check(cudaStreamWaitEvent(stream->stream, event->event, 0), "wait for an event");
    return NDT_OK;
  });
}

ndt_status capture_begin(ndt_stream* stream) {
  return guarded("capture_begin", [&] {
    const Current current(stream->device);
    begin_capture(*stream);
    return NDT_OK;
  });
}

ndt_status capture_end(ndt_stream* stream, ndt_kernel** graph) {
  *graph = nullptr;
  return guarded("capture_end", [&] {
    const Current current(stream->device);
    *graph = end_capture(*stream).release();
    return NDT_OK;
  });
}

const ndt_backend* backend() {
  static const std::string numerics = numerics_of_devices();
  static const ndt_backend table = {
      .version = NDT_ABI_VERSION,
      .name = kName,
      .numerics = numerics.c_str(),
      .shares_host_memory = 0,
      .last_error = last_error,
      .device_count = device_count,
      .open = open,
      .close = close,
      .alloc = alloc,
      .free = release_memory,
      .host_alloc = host_alloc,
      .host_free = host_free,
      .stream_create = stream_create,
      .stream_destroy = stream_destroy,
      .stream_wait = stream_wait,
      .upload = copy,
      .download = copy,
      .prepare = prepare,
      .run = run,
      .release = [](ndt_kernel* kernel) { delete kernel; },
      .prefer = prefer,
      .event_create = event_create,
      .event_record = event_record,
      .event_wait = event_wait,
      .event_destroy = event_destroy,
      .capture_begin = capture_begin,
      .capture_end = capture_end,
      .native_stream = [](ndt_stream* stream) -> void* { return stream->stream; },
      .describe = [](ndt_device* device) { return device->description.c_str(); },
      .device_numerics = [](ndt_device* device) { return device->numerics.c_str(); },
  };
  return &table;
}

}  // namespace

}  // namespace ndtrain::cuda

extern "C" __attribute__((visibility("default"))) const ndt_backend* ndt_backend_main(
    int32_t version, const ndt_host* host) {
  return ndtrain::plugin::enter(version, host, ndtrain::cuda::backend);
}
