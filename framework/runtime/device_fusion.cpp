#include "framework/runtime/device_fusion.h"

#include "framework/runtime/device_support.h"

namespace ndtrain {

Accepts accepts_of(const Device& device) {
  return [&device](Needs needs, const Graph& g, const Node& n) {
    if (needs == Needs::kLayout) return has_layout_for(device, g, n);
    if (why_no_kernel(device, g, n).empty()) return true;
    const Device* other = device.fallback();
    return needs == Needs::kAnyKernel && other && why_no_kernel(*other, g, n).empty();
  };
}

Rewritten fuse_for(const Device& device, const Graph& g, std::span<const ValueId> bindings) {
  return fuse_for_device(g, bindings, accepts_of(device));
}

}  // namespace ndtrain
