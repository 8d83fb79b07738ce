/* The plugin at $NDT_WRAPPED_PLUGIN, but for average pools of a few images at a time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "framework/runtime/backend_abi.h"

static const ndt_backend* wrapped;
static const char* refusal = "";

static const char* last_error(void) { return *refusal ? refusal : wrapped->last_error(); }

static ndt_status prepare(ndt_device* device, const ndt_node* node, ndt_prepared* out) {
  const int refused = node->in_one_thread && strcmp(node->op, "AveragePool") == 0;
  refusal = refused ? "takes whole batches only" : "";
  return refused ? NDT_UNSUPPORTED : wrapped->prepare(device, node, out);
}

__attribute__((visibility("default"))) const ndt_backend* ndt_backend_main(int32_t version,
                                                                           const ndt_host* host) {
  static ndt_backend backend;
  void* library = dlopen(getenv("NDT_WRAPPED_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
  ndt_backend_main_fn entry =
      library ? (ndt_backend_main_fn)dlsym(library, "ndt_backend_main") : NULL;
  wrapped = entry ? entry(version, host) : NULL;
  if (!wrapped) return NULL;
  backend = *wrapped;
  backend.prepare = prepare;
  backend.last_error = last_error;
  return &backend;
}
