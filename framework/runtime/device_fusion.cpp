#include "framework/runtime/device_fusion.h"

#include "framework/runtime/device_support.h"

namespace ndtrain {

Accepts accepts_of(const Device& device) {
  return [&device](Needs needs, const Graph& g, const Node& n) {
    if (needs == Needs::kLayout) return has_layout_for(device, g, n);
    if (why_no_kernel(device, g, n).empty()) return true;
    // The fallback computes 16-bit floats by way of f32, slower than what a device has for them.
    const bool wide = g.type(n.inputs[0]).dtype == DType::kF32;
    const Device* other = device.fallback();
    return needs == Needs::kAnyKernel && wide && other && why_no_kernel(*other, g, n).empty();
  };
}

Rewritten fuse_for(const Device& device, const Graph& g, std::span<const ValueId> bindings) {
  return fuse_for_device(g, bindings, accepts_of(device));
}

}  // namespace ndtrain
