/* Communication plugins that a host must refuse; NDT_FAKE says which. */
#include "framework/comm/comm_abi.h"

#define NDT_FAKE_NEWER 1  /* another version of the interface */
#define NDT_FAKE_SILENT 2 /* cannot serve this host */
#define NDT_FAKE_PARTIAL 3 /* lacks functions */

#if NDT_FAKE == 0
int ndt_fake_without_entry(void) { return 0; }
#else
__attribute__((visibility("default"))) const ndt_comm_plugin* ndt_comm_main(int32_t version) {
  static ndt_comm_plugin plugin;
  plugin.version = NDT_FAKE == NDT_FAKE_NEWER ? version + 1 : version;
  plugin.name = "fake";
  return NDT_FAKE == NDT_FAKE_SILENT ? 0 : &plugin;
}
#endif
