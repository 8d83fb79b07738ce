#include "framework/runtime/join.h"

#include <algorithm>

#include "framework/runtime/storage.h"

namespace ndtrain {
namespace {

constexpr int kChannels = 1;

// How often `v` is read, being an output of the graph included.
int64_t uses(const Graph& g, ValueId v) {
  int64_t n = std::ranges::count(g.outputs(), v);
  for (const Node& node : g.nodes()) n += std::ranges::count(node.inputs, v);
  return n;
}

}  // namespace

std::vector<size_t> part_producers(const Graph& g, const Node& n) {
  if (n.op != "Concat") return {};
  const Shape& whole = g.type(n.outputs[0]).shape;
  if (whole.rank() < 2 || whole.axis(n.attrs.i("axis"), "axis") != kChannels) return {};
  std::vector<size_t> producers;
  for (ValueId v : n.inputs) {
    if (g.value(v).kind != ValueKind::kComputed || uses(g, v) != 1) return {};
    const auto producer = std::ranges::find_if(
        g.nodes(), [&](const Node& p) { return p.outputs.size() == 1 && p.outputs[0] == v; });
    if (producer == g.nodes().end() || is_view(*producer) || producer->op == "Concat") return {};
    producers.push_back(static_cast<size_t>(producer - g.nodes().begin()));
  }
  return producers;
}

size_t part_offset(const Graph& g, const Node& n, size_t k) {
  const Shape& whole = g.type(n.outputs[0]).shape;
  int64_t channels = 0;
  for (size_t i = 0; i < k; ++i) channels += g.type(n.inputs[i]).shape[kChannels];
  return static_cast<size_t>(channels * whole.count(kChannels + 1, whole.rank())) *
         size_of(g.type(n.outputs[0]).dtype);
}

}  // namespace ndtrain
