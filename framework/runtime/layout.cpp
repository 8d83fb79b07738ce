#include "framework/runtime/layout.h"

#include <algorithm>
#include <map>
#include <utility>

#include "framework/runtime/abi_node.h"
#include "framework/runtime/flat_map.h"
#include "framework/runtime/memory_plan.h"

namespace ndtrain {
namespace {

// Blocks of channels under one pixel are no blocks.
ndt_tensor_type simplest(ndt_tensor_type t) {
  if (t.channel_block <= 1) {
    t.channel_block = 0;
    return t;
  }
  const bool one_pixel = std::all_of(t.dims + kChannelAxis + 1, t.dims + t.rank,
                                     [](int64_t extent) { return extent == 1; });
  if (!one_pixel || t.dims[kChannelAxis] % t.channel_block != 0) return t;
  t.strides[kChannelAxis] /= t.channel_block;
  t.channel_block = 0;
  return t;
}

bool described_alike(const ndt_tensor_type& a, const ndt_tensor_type& b) {
  if (a.rank != b.rank || std::max(a.channel_block, 1) != std::max(b.channel_block, 1)) {
    return false;
  }
  for (int i = 0; i < a.rank; ++i) {
    if (a.dims[i] != b.dims[i] || (a.dims[i] > 1 && a.strides[i] != b.strides[i])) return false;
  }
  return true;
}

ndt_tensor_type row_major(const ndt_tensor_type& t) {
  ndt_tensor_type plain = t;
  plain.channel_block = 0;
  int64_t stride = 1;
  for (int i = t.rank; i-- > 0;) {
    plain.strides[i] = stride;
    stride *= t.dims[i];
  }
  return plain;
}

const Ints kChannelsLast = {0, 2, 3, 1}, kChannelsFirst = {0, 3, 1, 2};

class LayoutPass {
 public:
  LayoutPass(const Graph& g, const Device& device, const std::set<ValueId>& bound)
      : g_(g), device_(device), bound_(bound), copy_(g), types_(row_major_types(g)) {}

  LayoutAssignment run() {
    copy_.keep_inputs();
    for (ValueId v : bound_) copy_.get(v);
    for (const Node& n : g_.nodes()) assign_layouts(n);
    std::vector<ValueId> outputs;
    for (ValueId v : g_.outputs()) outputs.push_back(as(v, row_major(type(v))));
    LayoutAssignment result;
    for (size_t i = 0; i < g_.value_count(); ++i) {
      const auto v = static_cast<ValueId>(i);
      result.now.push_back(copy_.has(v) ? copy_.get(v) : kNone);
    }
    result.graph = std::move(copy_.graph());
    result.graph.set_outputs(std::move(outputs));
    for (size_t i = 0; i < result.graph.value_count(); ++i) {
      const auto known = laid_.find(static_cast<ValueId>(i));
      result.types.push_back(known != laid_.end()
                                 ? known->second
                                 : abi_type(result.graph.type(static_cast<ValueId>(i))));
    }
    return result;
  }

 private:
  // How a value of the original lies where it was computed.
  ndt_tensor_type& type(ValueId v) { return types_[index(v)]; }
  bool is_constant(ValueId v) const { return g_.value(v).data.defined() && !bound_.contains(v); }

  void assign_layouts(const Node& n) {
    if (turn_channels(n)) return;
    std::vector<ndt_tensor_type> in(n.inputs.size()), out;
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      if (n.inputs[k] != kNone) in[k] = type(n.inputs[k]);
    }
    for (ValueId v : n.outputs) out.push_back(type(v));
    if (is_view(n) || !prefers(n, in, out)) lay_for_fallback(n, in, out);
    std::vector<ValueId> inputs;
    for (size_t k = 0; k < n.inputs.size(); ++k) inputs.push_back(as(n.inputs[k], in[k]));
    const std::vector<ValueId> outputs =
        copy_.graph().add(n.op, std::move(inputs), n.attrs, static_cast<int>(n.outputs.size()));
    for (size_t k = 0; k < outputs.size(); ++k) {
      copy_.graph().rename(outputs[k], g_.value(n.outputs[k]).name);
      copy_.replace(n.outputs[k], outputs[k]);
      type(n.outputs[k]) = laid_[outputs[k]] = out[k];
    }
  }

  // A Transpose that only says otherwise in which order the dims of images are that lie
  // channels-last, or are to, is a view.
  bool turn_channels(const Node& n) {
    if (n.op != "Transpose" || is_constant(n.inputs[0])) return false;
    const Ints& perm = n.attrs.ints("perm");
    const bool last = perm == kChannelsLast;
    if (!last && perm != kChannelsFirst) return false;
    if (is_row_major(type(n.inputs[0])) == last) return false;
    ndt_tensor_type in = row_major(type(n.inputs[0])), out = row_major(type(n.outputs[0]));
    for (size_t d = 0; d < perm.size(); ++d) {
      if (last) in.strides[perm[d]] = out.strides[d];
      if (!last) out.strides[d] = in.strides[perm[d]];
    }
    if (!last && !is_wanted(n.outputs[0], out)) return false;
    const ValueId x = as(n.inputs[0], in);
    const ValueId shape = copy_.graph().add_constant("", g_.shape(n.outputs[0]).dims());
    const ValueId y = copy_.graph().add1("Reshape", {x, shape});
    copy_.graph().rename(y, g_.value(n.outputs[0]).name);
    copy_.replace(n.outputs[0], y);
    type(n.outputs[0]) = laid_[y] = out;
    return true;
  }

  // Whether one of those that read `v` would not take it row-major if it lay so.
  bool is_wanted(ValueId v, const ndt_tensor_type& t) {
    const ndt_tensor_type now = std::exchange(type(v), t);
    bool wanted = false;
    for (const Node& n : g_.nodes()) {
      for (size_t k = 0; k < n.inputs.size() && !wanted; ++k) {
        if (n.inputs[k] != v || is_view(n)) continue;
        std::vector<ndt_tensor_type> in(n.inputs.size()), out;
        for (size_t i = 0; i < in.size(); ++i) {
          if (n.inputs[i] != kNone) in[i] = type(n.inputs[i]);
        }
        for (const ValueId y : n.outputs) out.push_back(type(y));
        wanted = prefers(n, in, out) && !is_row_major(in[k]);
      }
    }
    type(v) = now;
    return wanted;
  }

  // The layouts in which the backend would rather have the node; false: row-major.
  bool prefers(const Node& n, std::vector<ndt_tensor_type>& in, std::vector<ndt_tensor_type>& out) {
    AbiNode node(n, types_);
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      const ValueId v = n.inputs[k];
      if (v != kNone && is_constant(v)) node.set_constant(k, g_.value(v).data.data(), 0);
    }
    const ndt_status s = device_.abi().prefer(device_.handle(), &node.get(), in.data(), out.data());
    if (s == NDT_OK) return true;
    if (s != NDT_UNSUPPORTED) device_.backend().check(s, "layouts of " + n.op);
    for (size_t k = 0; k < out.size(); ++k) out[k] = abi_type(g_.type(n.outputs[k]));
    return false;
  }

  // The fallback takes row-major ports, and a map as a row wherever its elements lie.
  void lay_for_fallback(const Node& n, std::vector<ndt_tensor_type>& in,
                        std::vector<ndt_tensor_type>& out) const {
    if (const std::optional<PortTypes> alike = lying_alike(g_, n, types_)) {
      in = alike->in;
      out[0] = alike->out;
    } else {
      for (ndt_tensor_type& t : in) t = row_major(t);
    }
  }

  // Value `v` of the original, lying as `wanted`.
  ValueId as(ValueId v, const ndt_tensor_type& wanted) {
    if (v == kNone) return kNone;
    const ValueId have = copy_.get(v);
    if (described_alike(type(v), wanted)) return have;
    std::vector<std::pair<ndt_tensor_type, ValueId>>& others = reordered_[v];
    for (const auto& [t, other] : others) {
      if (described_alike(t, wanted)) return other;
    }
    const ValueId other = copy_.graph().add1("Reorder", {have});
    copy_.graph().rename(other, g_.value(v).name);
    laid_[other] = wanted;
    others.emplace_back(wanted, other);
    return other;
  }

  const Graph& g_;
  const Device& device_;
  const std::set<ValueId>& bound_;
  GraphCopy copy_;
  std::vector<ndt_tensor_type> types_;       // by value of the original
  std::map<ValueId, ndt_tensor_type> laid_;  // by value of the copy
  std::map<ValueId, std::vector<std::pair<ndt_tensor_type, ValueId>>> reordered_;
};

}  // namespace

LayoutAssignment assign_layouts(const Graph& g, const Device& device,
                                const std::set<ValueId>& bound) {
  if (device.abi().prefer) return LayoutPass(g, device, bound).run();
  LayoutAssignment same{.graph = g, .types = row_major_types(g), .now = {}};
  for (size_t i = 0; i < g.value_count(); ++i) same.now.push_back(static_cast<ValueId>(i));
  return same;
}

std::vector<ndt_tensor_type> row_major_types(const Graph& g) {
  std::vector<ndt_tensor_type> types;
  for (size_t i = 0; i < g.value_count(); ++i) {
    types.push_back(abi_type(g.type(static_cast<ValueId>(i))));
  }
  return types;
}

bool is_row_major(const ndt_tensor_type& t) { return lie_alike(t, row_major(t)); }

bool lie_alike(const ndt_tensor_type& a, const ndt_tensor_type& b) {
  return described_alike(simplest(a), simplest(b));
}

size_t extent_bytes(const ndt_tensor_type& t) {
  const int64_t lanes = std::max(t.channel_block, 1);
  int64_t elements = lanes;
  for (int i = 0; i < t.rank; ++i) {
    if (t.dims[i] == 0) return 0;
    const int64_t steps = i == kChannelAxis ? (t.dims[i] + lanes - 1) / lanes : t.dims[i];
    elements += (steps - 1) * t.strides[i];
  }
  return static_cast<size_t>(elements) * size_of(static_cast<DType>(t.dtype));
}

}  // namespace ndtrain
