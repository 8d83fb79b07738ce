// The C ABI of the cpu plugin. Work is done in the calling thread (and those the host lends): a
// stream is in order by nature, and stream_wait() has nothing to wait for.
#include <cblas.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "backends/cpu/kernels/kernel.h"
#include "backends/cpu/kernels/plain_loops.h"
#include "backends/cpu/version.h"
#include "backends/plugin/one_thread.h"

struct ndt_device {
  bool less_memory = false;
};
struct ndt_stream {};

namespace ndtrain::cpu {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{1} << 21;  // kernels walk over planes, a page or more apart

// A fixed buffer: reporting that memory ran out needs none.
thread_local char error_text[1024] = "no error";

ndt_status fail(ndt_status status, const char* who, const char* why) noexcept {
  std::snprintf(error_text, sizeof error_text, "%s: %s", who, why);
  return status;
}

// The one place where exceptions become status codes.
template <typename F>
ndt_status guarded(const char* who, F body) noexcept {
  try {
    return body();
  } catch (const Unsupported& e) {
    return fail(NDT_UNSUPPORTED, who, e.what());
  } catch (const std::bad_alloc&) {
    return fail(NDT_OUT_OF_MEMORY, who, "out of memory");
  } catch (const std::exception& e) {
    return fail(NDT_INVALID, who, e.what());
  } catch (...) {
    return fail(NDT_INVALID, who, "unknown exception");
  }
}

ndt_status device_count(int32_t* count) {
  *count = 1;
  return NDT_OK;
}

ndt_status open(int32_t index, const ndt_options* options, ndt_device** device) {
  return guarded("open", [&] {
    if (index != 0) invalid("there is one cpu device, 0; asked for ", index);
    *device = new ndt_device{options && options->less_memory != 0};
    return NDT_OK;
  });
}

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

ndt_status prepare(ndt_device* device, const ndt_node* abi_node, ndt_prepared* out) {
  return guarded("prepare", [&] {
    if (!abi_node || !out) invalid("null argument");
    const KernelRow* row = find_kernel(abi_node->op ? abi_node->op : "");
    const Node node = [&] {
      try {
        const bool gaps = row && row->trait == Trait::kGapped;
        return Node(*abi_node, gaps, device && device->less_memory);
      } catch (const Unsupported& e) {
        unsupported(abi_node->op, ": ", e.what());
      }
    }();
    if (!row) unsupported("no cpu kernel for ", node.describe());
    const plugin::OneThread one(abi_node);
    std::unique_ptr<Kernel> kernel;
    try {
      kernel = row->make(node);
    } catch (const Unsupported& e) {
      unsupported(node.describe(), ": ", e.what());
    } catch (const std::invalid_argument& e) {
      invalid(node.describe(), ": ", e.what());
    }
    const ndt_dtype t = node.inputs() > 0 ? node.in(0).dtype : NDT_ABSENT;
    if (row->trait == Trait::kPlain && (t == NDT_F16 || t == NDT_F64)) say_plain_loops(node);
    *out = {.kernel = kernel.get(),
            .workspace = kernel->workspace_bytes,
            .packed_inputs = kernel->packed_inputs,
            .in_place_inputs = kernel->in_place_inputs};
    (void)kernel.release();
    return NDT_OK;
  });
}

ndt_status run(const ndt_kernel* kernel, ndt_stream*, const void* const* inputs,
               void* const* outputs, void* workspace) {
  return guarded("run", [&] {
    kernel->run(inputs, outputs, workspace);
    return NDT_OK;
  });
}

// "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH …" -> "0.3.21"
std::string openblas_version() {
  std::istringstream words(openblas_get_config());
  std::string name, version;
  words >> name >> version;
  return version;
}

const char* numerics() {
  static const std::string text =
      std::string("cpu " NDT_CPU_VERSION " " NDT_CPU_LEVEL " openblas-") + openblas_version() +
      "-" + openblas_get_corename();
  return text.c_str();
}

bool runs_here() {
#if defined(__AVX512F__)
  return __builtin_cpu_supports("x86-64-v4");
#elif defined(__AVX2__)
  return __builtin_cpu_supports("x86-64-v3");
#else
  return true;
#endif
}

// Of two, chance would have to choose.
bool has_one_kernel_for_each_op(const ndt_host& host) {
  constexpr int32_t kError = 3;
  if (registered_twice().empty()) return true;
  const std::string text = "the cpu backend has two kernels for " + std::string(registered_twice());
  if (host.log) host.log(kError, text.c_str());
  return false;
}

const ndt_backend& backend() {
  static const ndt_backend table = {
      .version = NDT_ABI_VERSION,
      .name = "cpu",
      .numerics = numerics(),
      .shares_host_memory = 1,
      .last_error = [] { return static_cast<const char*>(error_text); },
      .device_count = device_count,
      .open = open,
      .close = [](ndt_device* device) { delete device; },
      .alloc = alloc,
      .free = release_memory,
      .host_alloc = alloc,
      .host_free = release_memory,
      .stream_create = stream_create,
      .stream_destroy = [](ndt_stream* stream) { delete stream; },
      .stream_wait = [](ndt_stream*) { return NDT_OK; },
      .upload = copy,
      .download = copy,
      .prepare = prepare,
      .run = run,
      .release = [](ndt_kernel* kernel) { delete kernel; },
      .prefer = nullptr,
      .event_create = nullptr,
      .event_record = nullptr,
      .event_wait = nullptr,
      .event_destroy = nullptr,
      .capture_begin = nullptr,
      .capture_end = nullptr,
      .native_stream = nullptr,
      .describe = nullptr,
      .device_numerics = nullptr,
  };
  return table;
}

}  // namespace
}  // namespace ndtrain::cpu

extern "C" __attribute__((visibility("default"))) const ndt_backend* ndt_backend_main(
    int32_t version, const ndt_host* host) {
  using namespace ndtrain::cpu;
  if (version != NDT_ABI_VERSION || !host || !host->parallel_for || !runs_here()) return nullptr;
  set_host(*host);
  openblas_set_num_threads(1);
  try {
    return has_one_kernel_for_each_op(*host) ? &backend() : nullptr;
  } catch (...) {
    return nullptr;
  }
}
