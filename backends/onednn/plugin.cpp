// The C ABI of the onednn plugin. Work is done in the calling thread and those the host lends: a
// stream is in order by nature.
#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "backends/onednn/chip.h"
#include "backends/onednn/dnnl.h"
#include "backends/onednn/kernel.h"
#include "backends/onednn/ops.h"
#include "backends/onednn/version.h"
#include "backends/plugin/one_thread.h"

struct ndt_stream {};

namespace ndtrain::onednn {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{1} << 21;

ndt_host the_host{};

constexpr const char* kName = "onednn";

const std::string& fixed_numerics() {
  static const std::string text = text_of(kName, ' ', library_name(), " " NDT_ONEDNN_VERSION);
  return text;
}

ndt_status device_count(int32_t* count) {
  *count = 1;
  return NDT_OK;
}

ndt_status open(int32_t index, const ndt_options* options, ndt_device** device) {
  return guarded("open", [&] {
    if (index != 0) invalid("there is one onednn device, 0; asked for ", index);
    if (options && options->struct_size < NDT_OPTIONS_SIZE_1_0) invalid("ndt_options is too small");
    auto opened = std::make_unique<ndt_device>();
    const std::string chip = chip_name(), library = library_name();
    opened->numerics = fixed_numerics();
    opened->description = chip + ", oneDNN " + library;
    if (options) {
      opened->less_memory = NDT_REACHES(options, less_memory) && options->less_memory;
      opened->tuning = Tuning::open(*options, {kName, chip, library, the_host.log});
    }
    if (opened->tuning) {
      opened->numerics += opened->tuning->digest();
      opened->description += "; " + opened->tuning->description();
    }
    *device = opened.release();
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

// Calls body(op, node); what it throws gets the node's description.
template <typename F>
void with_op(const ndt_node* abi_node, const F& body) {
  if (!abi_node) invalid("null argument");
  const Node node(*abi_node);
  const Op* op = find_op(node.op());
  if (!op) unsupported("no onednn kernel for ", node.describe());
  try {
    body(*op, node);
  } catch (const Unsupported& e) {
    unsupported(node.describe(), ": ", e.what());
  } catch (const std::invalid_argument& e) {
    invalid(node.describe(), ": ", e.what());
  }
}

ndt_status prefer(ndt_device*, const ndt_node* node, ndt_tensor_type* inputs,
                  ndt_tensor_type* outputs) {
  return guarded("prefer", [&] {
    with_op(node, [&](const Op& op, const Node& view) {
      if (!op.prefer) unsupported("it has no preference");
      op.prefer(view, inputs, outputs);
    });
    return NDT_OK;
  });
}

ndt_status prepare(ndt_device* device, const ndt_node* node, ndt_prepared* out) {
  return guarded("prepare", [&] {
    if (!device || !out) invalid("null argument");
    with_op(node, [&](const Op& op, const Node& view) {
      const OneThread one(node);
      std::unique_ptr<Kernel> kernel = op.prepare(*device, view);
      *out = {.struct_size = sizeof(ndt_prepared),
              .kernel = kernel.get(),
              .workspace = kernel->workspace_bytes,
              .packed_inputs = kernel->packed_inputs,
              .in_place_inputs = kernel->in_place_inputs};
      (void)kernel.release();
    });
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

const ndt_backend& backend() {
  static const ndt_backend table = {
      .struct_size = sizeof(ndt_backend),
      .abi_major = NDT_ABI_MAJOR,
      .abi_minor = NDT_ABI_MINOR,
      .name = kName,
      .numerics = fixed_numerics().c_str(),
      .shares_host_memory = 1,
      .last_error = last_error,
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
      .prefer = prefer,
      .prepare = prepare,
      .run = run,
      .release = [](ndt_kernel* kernel) { delete kernel; },
      .event_create = nullptr,
      .event_record = nullptr,
      .event_wait = nullptr,
      .event_destroy = nullptr,
      .capture_begin = nullptr,
      .capture_end = nullptr,
      .native_stream = nullptr,
      .describe = [](ndt_device* device) { return device->description.c_str(); },
      .device_numerics = [](ndt_device* device) { return device->numerics.c_str(); },
  };
  return table;
}

}  // namespace

const ndt_host& host() { return the_host; }

void set_host(const ndt_host& host) { the_host = host; }

int threads() { return OneThread::asked() ? 1 : std::max(1, the_host.threads); }

}  // namespace ndtrain::onednn

extern "C" __attribute__((visibility("default"))) const ndt_backend* ndt_backend_main(
    int32_t host_major, int32_t, const ndt_host* host) {
  using namespace ndtrain::onednn;
  if (host_major != NDT_ABI_MAJOR || !host || host->struct_size < sizeof(ndt_host)) return nullptr;
  if (!host->parallel_for) return nullptr;
  set_host(*host);
  try {
    return &backend();
  } catch (...) {
    return nullptr;
  }
}
