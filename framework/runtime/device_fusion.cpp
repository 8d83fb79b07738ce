#include "framework/runtime/device_fusion.h"

#include "framework/runtime/abi_node.h"
#include "framework/runtime/layout.h"

namespace ndtrain {
namespace {

// Whether `device` itself has a kernel for a fused node that nothing has to have.
bool takes(const Device& device, const Graph& g, const Node& n) {
  const AbiNode node(n, row_major_types(g));
  ndt_prepared prepared{};
  const ndt_status s = device.abi().prepare(device.handle(), &node.get(), &prepared);
  if (s == NDT_UNSUPPORTED) return false;
  device.backend().check(s, "prepare " + n.op);
  device.abi().release(prepared.kernel);
  return true;
}

// Whether it says how it would lay one out.
bool has_layout_for(const Device& device, const Graph& g, const Node& n) {
  if (!device.abi().prefer) return false;
  AbiNode node(n, row_major_types(g));
  std::vector<ndt_tensor_type> in, out;
  for (size_t k = 0; k < n.inputs.size(); ++k) {
    in.push_back(abi_type(g.type(n.inputs[k])));
    const Tensor& data = g.value(n.inputs[k]).data;
    if (data.defined()) node.set_constant(k, data.data(), 0);
  }
  for (ValueId v : n.outputs) out.push_back(abi_type(g.type(v)));
  const ndt_status s = device.abi().prefer(device.handle(), &node.get(), in.data(), out.data());
  if (s == NDT_UNSUPPORTED) return false;
  device.backend().check(s, "layouts of " + n.op);
  return true;
}

}  // namespace

Rewritten fuse_for(const Device& device, const Graph& g, std::span<const ValueId> bindings) {
  return fuse_for_device(g, bindings, [&](Needs needs, const Graph& with, const Node& n) {
    return needs == Needs::kKernel ? takes(device, with, n) : has_layout_for(device, with, n);
  });
}

}  // namespace ndtrain
