/* Plugins that a host must refuse, and one of an older interface; NDT_FAKE says which. */
#include "framework/runtime/backend_abi.h"

#define NDT_FAKE_NEWER 1  /* another major version of the interface */
#define NDT_FAKE_SHORT 2  /* a struct that ends too early */
#define NDT_FAKE_SILENT 3 /* cannot serve this host */
#define NDT_FAKE_OLDER 4  /* a struct as long as in version 1.0, and no zeros behind it */

static const char* no_error(void) { return ""; }
static const char* not_a_field(ndt_device* device) { return (const char*)device; }

#if NDT_FAKE == 0
int ndt_fake_without_entry(void) { return no_error() == not_a_field(0); }
#else
__attribute__((visibility("default"))) const ndt_backend* ndt_backend_main(int32_t major,
                                                                           int32_t minor,
                                                                           const ndt_host* host) {
  static ndt_backend backend;
  (void)minor;
  (void)host;
  backend.struct_size = NDT_FAKE == NDT_FAKE_SHORT   ? 64
                        : NDT_FAKE == NDT_FAKE_OLDER ? NDT_BACKEND_SIZE_1_0
                                                     : sizeof backend;
  backend.device_numerics = not_a_field;
  backend.abi_major = NDT_FAKE == NDT_FAKE_NEWER ? major + 1 : major;
  backend.name = "fake";
  backend.numerics = "fake";
  backend.last_error = no_error;
  return NDT_FAKE == NDT_FAKE_SILENT ? 0 : &backend;
}
#endif
