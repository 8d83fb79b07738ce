#include "framework/runtime/device_support.h"

#include "framework/runtime/abi_node.h"
#include "framework/runtime/layout.h"

namespace ndtrain {
namespace {

void set_constants(AbiNode& node, const Graph& g, const Node& n) {
  for (size_t k = 0; k < n.inputs.size(); ++k) {
    if (n.inputs[k] == kNone) continue;
    const Tensor& data = g.value(n.inputs[k]).data;
    if (data.defined()) node.set_constant(k, data.data(), 0);
  }
}

}  // namespace

std::string why_no_kernel(const Device& device, const Graph& g, const Node& n) {
  AbiNode node(n, row_major_types(g));
  set_constants(node, g, n);
  ndt_prepared prepared{};
  const ndt_status s = device.abi().prepare(device.handle(), &node.get(), &prepared);
  if (s == NDT_UNSUPPORTED) return device.abi().last_error();
  device.backend().check(s, "prepare " + n.op);
  device.abi().release(prepared.kernel);
  return "";
}

bool has_layout_for(const Device& device, const Graph& g, const Node& n) {
  if (!device.abi().prefer) return why_no_kernel(device, g, n).empty();
  AbiNode node(n, row_major_types(g));
  set_constants(node, g, n);
  std::vector<ndt_tensor_type> in, out;
  for (const ValueId v : n.inputs) {
    in.push_back(v == kNone ? ndt_tensor_type{} : abi_type(g.type(v)));
  }
  for (ValueId v : n.outputs) out.push_back(abi_type(g.type(v)));
  const ndt_status s = device.abi().prefer(device.handle(), &node.get(), in.data(), out.data());
  if (s == NDT_UNSUPPORTED) return false;
  device.backend().check(s, "layouts of " + n.op);
  return true;
}

}  // namespace ndtrain
