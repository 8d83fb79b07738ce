#include "framework/runtime/kernel_selection.h"

#include <algorithm>
#include <map>
#include <optional>

#include "framework/core/hash.h"
#include "framework/graph/op.h"
#include "framework/runtime/abi_node.h"
#include "framework/runtime/arena.h"
#include "framework/runtime/concat_elision.h"
#include "framework/runtime/flat_map.h"

namespace ndtrain {
namespace {

uint64_t constant_id(const Tensor& t) {
  uint64_t seed = static_cast<uint64_t>(t.type().dtype);
  for (int64_t d : t.shape().dims()) seed = seed * 1'000'003 + static_cast<uint64_t>(d);
  return xxh3(t.data(), t.bytes(), seed);
}

class Selector {
 public:
  Selector(const LayoutAssignment& laid, const Device& device, const std::set<ValueId>& bound,
           const BatchTiling& tiling)
      : g_(laid.graph),
        types_(laid.types),
        tile_types_(tile_types(tiling, laid.graph, laid.types)),
        device_(device),
        bound_(bound),
        whole_(g_.nodes().size(), kNone) {
    s_.tiling = tiling;
    s_.nodes.resize(g_.nodes().size());
    s_.kernels.resize(g_.nodes().size());
    for (size_t i = 0; i < s_.nodes.size(); ++i) s_.nodes[i].is_view = is_view_here(g_.nodes()[i]);
  }

  // Asks for the kernels of the parts of Concats that need no copy.
  void elide_concats() {
    const ConcatElision elision(g_);
    for (size_t i = 0; i < g_.nodes().size(); ++i) {
      const Node& n = g_.nodes()[i];
      const std::vector<size_t> parts = elision.part_producers(n);
      if (parts.empty() || !part_offset(types_, n, parts.size() - 1)) continue;
      if (std::ranges::any_of(parts, [&](size_t p) { return s_.nodes[p].is_view; })) continue;
      for (size_t p : parts) whole_[p] = n.outputs[0];
      const auto taken = [&](size_t p) { return !refusal_of(p); };
      s_.nodes[i].is_elided_concat = std::ranges::all_of(parts, taken);
      if (s_.nodes[i].is_elided_concat) continue;
      for (size_t p : parts) {
        whole_[p] = kNone;
        s_.kernels[p] = {};
      }
    }
  }

  KernelSelection rest() && {
    for (size_t i = 0; i < g_.nodes().size(); ++i) {
      if (s_.nodes[i].is_view) {
        reads(g_.nodes()[i].inputs[0]);
      } else if (!s_.nodes[i].is_elided_concat && !s_.kernels[i].is_there()) {
        if (std::optional<std::string> reason = refusal_of(i)) {
          s_.refusals.push_back({i, std::move(*reason)});
        }
      }
    }
    return std::move(s_);
  }

 private:
  bool is_constant(ValueId v) const {
    return v != kNone && g_.value(v).data.defined() && !bound_.contains(v);
  }

  bool is_view_here(const Node& n) const {
    return is_view(n) || (n.op == "Reorder" &&
                          lie_alike(types_[index(n.inputs[0])], types_[index(n.outputs[0])]));
  }

  void reads(ValueId v) {
    if (is_constant(v)) s_.unpacked.insert(v);
  }

  uint64_t id(ValueId v) {
    auto [it, fresh] = ids_.try_emplace(v, 0);
    if (fresh) it->second = constant_id(g_.value(v).data);
    return it->second;
  }

  // None when a device takes the node, which then has its kernel.
  std::optional<std::string> refusal_of(size_t i) {
    std::optional<std::string> refusal = refusal_of(i, device_);
    const Device* fallback = device_.fallback();
    if (!refusal || !fallback) return refusal;
    const Node& n = g_.nodes()[i];
    const auto plain = [&](ValueId v) { return v == kNone || is_row_major(types_[index(v)]); };
    std::optional<PortTypes> rows;
    if (!std::ranges::all_of(n.inputs, plain) || !std::ranges::all_of(n.outputs, plain)) {
      if (whole_[i] == kNone) rows = as_rows(g_, n, types_of(i));
      if (!rows) return refusal;
    }
    const std::optional<std::string> second = refusal_of(i, *fallback, rows);
    if (!second) return {};
    return *refusal + "; " + fallback->backend().name() + ": " + *second;
  }

  const std::vector<ndt_tensor_type>& types_of(size_t i) const {
    return i < s_.tiling.nodes ? tile_types_ : types_;
  }

  // `ports`: where they are not as the values lie.
  std::optional<std::string> refusal_of(size_t i, const Device& device,
                                        const std::optional<PortTypes>& ports = {}) {
    const Node& n = g_.nodes()[i];
    const bool tiled = i < s_.tiling.nodes;
    AbiNode node(n, types_of(i));
    if (ports) node.set_ports(ports->in, ports->out);
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      const ValueId v = n.inputs[k];
      if (is_constant(v)) node.set_constant(k, g_.value(v).data.data(), id(v));
    }
    if (tiled) node.set_in_one_thread();
    if (whole_[i] != kNone) node.set_output_within(types_[index(whole_[i])]);
    ndt_prepared prepared{};
    const ndt_status s = device.abi().prepare(device.handle(), &node.get(), &prepared);
    if (s == NDT_UNSUPPORTED) {
      std::string why = device.abi().last_error();
      if (!runs_by_reference(i, device)) return why;
      s_.kernels[i] = PreparedKernel(std::make_unique<ReferenceKernel>(g_, n));
      for (const ValueId v : n.inputs) reads(v);
      say_by_reference(n.op);
      return {};
    }
    device.backend().check(s, "prepare " + n.op);
    s_.kernels[i] = PreparedKernel(device, prepared.kernel);
    s_.nodes[i].in_place_inputs = prepared.in_place_inputs;
    s_.nodes[i].workspace = aligned(prepared.workspace);
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      if (!(k < 64 && (prepared.packed_inputs >> k & 1))) reads(n.inputs[k]);
    }
    return {};
  }

  // Beside the cpu plugin, whose work is done when run() returns and whose ports are row-major.
  bool runs_by_reference(size_t i, const Device& device) const {
    return find_op(g_.nodes()[i].op).by_reference && device.backend().name() == "cpu" &&
           whole_[i] == kNone && i >= s_.tiling.nodes;
  }

  const Graph& g_;
  const std::vector<ndt_tensor_type>& types_;
  const std::vector<ndt_tensor_type> tile_types_;
  const Device& device_;
  const std::set<ValueId>& bound_;
  std::vector<ValueId> whole_;  // the elided Concat in which a node's output lies, or kNone
  std::map<ValueId, uint64_t> ids_;
  KernelSelection s_;
};

}  // namespace

KernelSelection select_kernels(const LayoutAssignment& laid, const Device& device,
                               const std::set<ValueId>& bound, bool elide_concats,
                               const BatchTiling& tiling) {
  Selector selector(laid, device, bound, tiling);
  if (elide_concats) selector.elide_concats();
  KernelSelection s = std::move(selector).rest();
  if (s.refusals.empty() || s.refusals[0].node >= tiling.nodes) return s;
  // Perhaps of a kernel that takes the batch, but not a few images.
  return select_kernels(laid, device, bound, elide_concats,
                        ending_before(tiling, s.refusals[0].node));
}

std::string text_of(const std::vector<KernelRefusal>& refusals, const Graph& g,
                    const Device& device) {
  std::string text = "the " + device.backend().name() + " backend has no kernel for " +
                     std::to_string(refusals.size()) + " of " + std::to_string(g.nodes().size()) +
                     " nodes:";
  for (const KernelRefusal& r : refusals) {
    const Node& n = g.nodes()[r.node];
    text += "\n  " + n.op + " computing '" + g.value(n.outputs[0]).name + "': " + r.reason;
  }
  return text;
}

}  // namespace ndtrain
