#include "framework/runtime/device_fusion.h"

#include <utility>

#include "framework/passes/fuse_attention.h"
#include "framework/passes/fuse_conv_elementwise.h"
#include "framework/passes/fuse_elementwise.h"
#include "framework/passes/fuse_matmul.h"
#include "framework/passes/fuse_max_pool.h"
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

std::vector<ValueId> translated(std::span<const ValueId> values, std::span<const ValueId> now) {
  std::vector<ValueId> found;
  for (ValueId v : values) found.push_back(v == kNone ? kNone : now[index(v)]);
  return found;
}

FusedGraph fuse_for(const Device& device, const Graph& g, std::span<const ValueId> bindings) {
  FusedGraph f{.graph = g, .now = {}};
  for (size_t i = 0; i < g.value_count(); ++i) f.now.push_back(static_cast<ValueId>(i));
  const auto apply = [&](auto pass, const Offer& accepts) {
    Rewritten r = pass(f.graph, translated(bindings, f.now), accepts);
    f = {.graph = std::move(r.graph), .now = translated(f.now, r.now)};
  };
  const Offer kernel = [&](const Graph& with, const Node& n) { return takes(device, with, n); };
  const Offer layout = [&](const Graph& with, const Node& n) {
    return has_layout_for(device, with, n);
  };
  apply(fuse_attention, kernel);
  apply(fuse_matmul, layout);
  apply(fuse_max_pool, layout);
  apply(fuse_conv_elementwise, layout);
  apply(fuse_elementwise, layout);
  return f;
}

}  // namespace ndtrain
