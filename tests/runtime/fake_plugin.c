/* Plugins that a host must refuse; NDT_FAKE says which. */
#include "framework/runtime/backend_abi.h"

#define NDT_FAKE_NEWER 1  /* another version of the interface */
#define NDT_FAKE_SILENT 2 /* cannot serve this host */

static const char* no_error(void) { return ""; }

#if NDT_FAKE == 0
int ndt_fake_without_entry(void) { return no_error() == 0; }
#else
__attribute__((visibility("default"))) const ndt_backend* ndt_backend_main(int32_t version,
                                                                           const ndt_host* host) {
  static ndt_backend backend;
  (void)host;
  backend.version = NDT_FAKE == NDT_FAKE_NEWER ? version + 1 : version;
  backend.name = "fake";
  backend.numerics = "fake";
  backend.last_error = no_error;
  return NDT_FAKE == NDT_FAKE_SILENT ? 0 : &backend;
}
#endif
