#include "framework/runtime/flat_map.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "framework/graph/op.h"
#include "framework/runtime/layout.h"

namespace ndtrain {
namespace {

// One output, and inputs that are of its shape or one number.
bool is_plain_map(const Graph& g, const Node& n) {
  if (find_op(n.op).facts.kind != OpKind::kMap || n.outputs.size() != 1) return false;
  const Shape& y = g.shape(n.outputs[0]);
  return std::ranges::all_of(n.inputs, [&](ValueId v) {
    return v == kNone || g.shape(v) == y || g.shape(v).count() == 1;
  });
}

bool is_full(const Graph& g, const Node& n, ValueId v) {
  return v != kNone && g.shape(v) == g.shape(n.outputs[0]);
}

int64_t elements_of(const ndt_tensor_type& t) {
  return std::accumulate(t.dims, t.dims + t.rank, int64_t{1}, std::multiplies<>());
}

bool fills_its_memory(const ndt_tensor_type& t) {
  const size_t size = size_of(static_cast<DType>(t.dtype));
  return extent_bytes(t) == static_cast<size_t>(elements_of(t)) * size;
}

ndt_tensor_type lying_as(ndt_tensor_type t, const ndt_tensor_type& other) {
  std::copy_n(other.strides, other.rank, t.strides);
  t.channel_block = other.channel_block;
  return t;
}

ndt_tensor_type row(const ndt_tensor_type& t) {
  return {
      .dtype = t.dtype, .rank = 1, .dims = {elements_of(t)}, .strides = {1}, .channel_block = 0};
}

}  // namespace

std::optional<PortTypes> lying_alike(const Graph& g, const Node& n,
                                     const std::vector<ndt_tensor_type>& types) {
  if (!is_plain_map(g, n)) return {};
  const auto first = std::ranges::find_if(
      n.inputs, [&](ValueId v) { return is_full(g, n, v) && !is_row_major(types[index(v)]); });
  if (first == n.inputs.end()) return {};
  const ndt_tensor_type& as = types[index(*first)];
  if (!fills_its_memory(as)) return {};
  PortTypes ports{.in = {}, .out = lying_as(types[index(n.outputs[0])], as)};
  for (const ValueId v : n.inputs) {
    ports.in.push_back(v == kNone ? ndt_tensor_type{} : types[index(v)]);
    if (is_full(g, n, v)) ports.in.back() = lying_as(ports.in.back(), as);
  }
  return ports;
}

std::optional<PortTypes> as_rows(const Graph& g, const Node& n,
                                 const std::vector<ndt_tensor_type>& types) {
  if (!is_plain_map(g, n)) return {};
  const ndt_tensor_type& y = types[index(n.outputs[0])];
  if (!fills_its_memory(y)) return {};
  PortTypes ports{.in = {}, .out = row(y)};
  for (const ValueId v : n.inputs) {
    if (v == kNone) {
      ports.in.push_back({});
      continue;
    }
    if (is_full(g, n, v) && !lie_alike(types[index(v)], y)) return {};
    ports.in.push_back(row(types[index(v)]));
  }
  return ports;
}

}  // namespace ndtrain
