#include "cli/nccl_offer.h"

#include "framework/comm/comm_plugin.h"

namespace ndtrain::cli {

LibraryOffer nccl_offer(const Context& context) {
  LibraryOffer offer;
  try {
    const Backend& backend = Backend::find(context.device_name());
    if (backend.name() != "cuda") {
      offer.why_not =
          "its device is " + backend.name() + ", and NCCL is between GPUs: --device cuda";
      return offer;
    }
    backend.check(backend.abi().device_count(&offer.devices), "device_count");
  } catch (const Error& e) {
    offer.why_not = e.what();
    return offer;
  }
  try {
    offer.plugin = &find_comm_plugin("nccl");
  } catch (const Error& e) {
    offer.why_not = std::string(e.what()) +
                    "; it is built where the CUDA toolkit and NCCL 2.18 or later are, and needs "
                    "libnccl.so.2 where the loader looks (LD_LIBRARY_PATH)";
  }
  return offer;
}

}  // namespace ndtrain::cli
