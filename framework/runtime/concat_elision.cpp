#include "framework/runtime/concat_elision.h"

#include <algorithm>

#include "framework/runtime/layout.h"
#include "framework/runtime/memory_plan.h"

namespace ndtrain {

std::vector<size_t> ConcatElision::part_producers(const Node& n) const {
  if (n.op != "Concat") return {};
  const Shape& whole = g_.type(n.outputs[0]).shape;
  if (whole.rank() < 2 || whole.axis(n.attrs.i("axis"), "axis") != kChannelAxis) return {};
  std::vector<size_t> producers;
  for (ValueId v : n.inputs) {
    if (uses_.producer(v) < 0 || uses_.reads(v) != 1) return {};
    const auto producer = static_cast<size_t>(uses_.producer(v));
    const Node& p = g_.nodes()[producer];
    if (p.outputs.size() != 1 || is_view(p) || p.op == "Concat") return {};
    producers.push_back(producer);
  }
  return producers;
}

std::optional<size_t> part_offset(std::span<const ndt_tensor_type> types, const Node& n, size_t k) {
  const ndt_tensor_type& whole = types[index(n.outputs[0])];
  const int64_t lanes = std::max(whole.channel_block, 1);
  int64_t channels = 0;
  for (size_t i = 0; i < k; ++i) channels += types[index(n.inputs[i])].dims[kChannelAxis];
  const ndt_tensor_type& part = types[index(n.inputs[k])];
  if (part.channel_block != whole.channel_block) return {};
  if (channels % lanes != 0 || part.dims[kChannelAxis] % lanes != 0) return {};
  return static_cast<size_t>(channels / lanes * whole.strides[kChannelAxis]) *
         size_of(static_cast<DType>(whole.dtype));
}

}  // namespace ndtrain
