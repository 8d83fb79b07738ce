// The smallest backend: computes Relu on f32 in plain loops, refuses everything else and says why.
// Built as libndt_null.so it is found as "null" in $NDTRAIN_BACKEND_PATH.
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "framework/runtime/backend_abi.h"

struct ndt_device {
} the_device;
struct ndt_stream {
} the_stream;
struct ndt_kernel {
  int64_t elements;
};

static thread_local std::string why = "no error";

static ndt_status fail(ndt_status status, std::string reason) {
  why = std::move(reason);
  return status;
}

static ndt_status alloc(ndt_device*, size_t bytes, void** ptr) {
  *ptr = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  return *ptr ? NDT_OK : fail(NDT_OUT_OF_MEMORY, std::to_string(bytes) + " bytes");
}

static ndt_status copy(ndt_stream*, void* to, const void* from, size_t bytes) {
  return std::memcpy(to, from, bytes), NDT_OK;
}

static ndt_status prepare(ndt_device*, const ndt_node* node, ndt_prepared* out) {
  const std::string op = node->op;
  if (op != "Relu") return fail(NDT_UNSUPPORTED, "null computes Relu only, not " + op);
  const ndt_tensor_type& x = node->inputs[0];
  const bool gaps = std::memcmp(x.strides, node->outputs[0].strides, sizeof x.strides) != 0;
  if (gaps || x.dtype != NDT_F32) return fail(NDT_UNSUPPORTED, "null wants f32 without gaps");
  if (!(out->kernel = new (std::nothrow) ndt_kernel{1})) return fail(NDT_OUT_OF_MEMORY, "kernel");
  for (int d = 0; d < x.rank; ++d) out->kernel->elements *= x.dims[d];
  return NDT_OK;
}

static ndt_status run(const ndt_kernel* k, ndt_stream*, const void* const* in, void* const* out,
                      void*) {
  const float* x = static_cast<const float*>(*in);
  for (int64_t i = 0; i < k->elements; ++i) static_cast<float*>(*out)[i] = x[i] < 0 ? 0 : x[i];
  return NDT_OK;
}

static constexpr ndt_backend kBackend = {
    .version = NDT_ABI_VERSION,
    .name = "null",
    .numerics = "null 1",
    .shares_host_memory = 1,
    .last_error = [] { return why.c_str(); },
    .device_count = [](int32_t* n) { return *n = 1, NDT_OK; },
    .open = [](int32_t, const ndt_options*, ndt_device** d) { return *d = &the_device, NDT_OK; },
    .close = [](ndt_device*) {},
    .alloc = alloc,
    .free = [](ndt_device*, void* p) { std::free(p); },
    .host_alloc = alloc,
    .host_free = [](ndt_device*, void* p) { std::free(p); },
    .stream_create = [](ndt_device*, ndt_stream** s) { return *s = &the_stream, NDT_OK; },
    .stream_destroy = [](ndt_stream*) {},
    .stream_wait = [](ndt_stream*) { return NDT_OK; },
    .upload = copy,
    .download = copy,
    .prepare = prepare,
    .run = run,
    .release = [](ndt_kernel* k) { delete k; },
};

extern "C" __attribute__((visibility("default"))) const ndt_backend* ndt_backend_main(
    int32_t version, const ndt_host*) {
  return version == NDT_ABI_VERSION ? &kBackend : nullptr;
}
