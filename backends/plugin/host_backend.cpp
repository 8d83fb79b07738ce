#include "backends/plugin/host_backend.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

struct ndt_stream {};

namespace ndtrain::plugin {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{1} << 21;  // kernels walk over planes, a page or more apart

ndt_status alloc(ndt_device*, size_t bytes, void** ptr) {
  *ptr = nullptr;
  const size_t alignment = bytes >= 2 * kHugePage ? kHugePage : kAlignment;
  if (bytes > PTRDIFF_MAX - alignment) return fail(NDT_OUT_OF_MEMORY, "alloc", "size overflow");
  const size_t whole = std::max(alignment, (bytes + alignment - 1) / alignment * alignment);
  *ptr = std::aligned_alloc(alignment, whole);
  if (*ptr && alignment == kHugePage) madvise(*ptr, whole, MADV_HUGEPAGE);  // a wish: may fail
  if (*ptr) return NDT_OK;
  return fail(NDT_OUT_OF_MEMORY, "alloc", (std::to_string(bytes) + " bytes").c_str());
}

void release_memory(ndt_device*, void* ptr) { std::free(ptr); }

ndt_status stream_create(ndt_device*, ndt_stream** stream) {
  return guarded("stream_create", [&] {
    *stream = new ndt_stream;
    return NDT_OK;
  });
}

ndt_status copy(ndt_stream*, void* dst, const void* src, size_t bytes) {
  if (bytes) std::memcpy(dst, src, bytes);
  return NDT_OK;
}

ndt_status run(const ndt_kernel* kernel, ndt_stream*, const void* const* inputs,
               void* const* outputs, void* workspace) {
  return guarded("run", [&] {
    kernel->run(inputs, outputs, workspace);
    return NDT_OK;
  });
}

}  // namespace

ndt_backend host_backend(const char* name) {
  return {
      .version = NDT_ABI_VERSION,
      .name = name,
      .shares_host_memory = 1,
      .last_error = last_error,
      .device_count = [](int32_t* count) { return *count = 1, NDT_OK; },
      .alloc = alloc,
      .free = release_memory,
      .host_alloc = alloc,
      .host_free = release_memory,
      .stream_create = stream_create,
      .stream_destroy = [](ndt_stream* stream) { delete stream; },
      .stream_wait = [](ndt_stream*) { return NDT_OK; },
      .upload = copy,
      .download = copy,
      .run = run,
      .release = [](ndt_kernel* kernel) { delete kernel; },
  };
}

void check_device_index(const char* name, int32_t index) {
  if (index != 0) invalid("there is one ", name, " device, 0; asked for ", index);
}

}  // namespace ndtrain::plugin
