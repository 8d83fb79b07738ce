#include "framework/runtime/device_fusion.h"

#include "framework/runtime/device_support.h"

namespace ndtrain {

Rewritten fuse_for(const Device& device, const Graph& g, std::span<const ValueId> bindings) {
  return fuse_for_device(g, bindings, [&](Needs needs, const Graph& with, const Node& n) {
    // A fused node that nothing has to have.
    return needs == Needs::kKernel ? why_no_kernel(device, with, n).empty()
                                   : has_layout_for(device, with, n);
  });
}

}  // namespace ndtrain
