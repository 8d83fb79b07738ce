#include "framework/passes/fuse_max_pool.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "framework/graph/uses.h"

namespace ndtrain {
namespace {

// What is read by one MaxPool and nothing else.
struct Pooled {
  std::vector<int> convs;
  int concat = -1;  // of all of them, by channels
};

class Search {
 public:
  Search(const Graph& g, std::span<const ValueId> varying)
      : g_(g), uses_(g), varying_(varying.begin(), varying.end()) {}

  std::optional<Pooled> read_by(int pool) const {
    const Node& n = node(pool);
    if (n.op != "MaxPool" || n.outputs.size() != 1 || !is_plain(n)) return {};
    const int made = maker(n.inputs[0]);
    if (made >= 0 && node(made).op == "Concat") return joined(made);
    if (!is_conv(made)) return {};
    return Pooled{.convs = {made}};
  }

 private:
  const Node& node(int i) const { return g_.nodes()[static_cast<size_t>(i)]; }
  // Of a value that is read once; else -1.
  int maker(ValueId v) const { return uses_.only_once(v) ? uses_.producer(v) : -1; }
  bool is_constant(ValueId v) const {
    return v == kNone || (g_.value(v).data.defined() && !varying_.contains(v));
  }

  bool is_plain(const Node& pool) const {
    const auto one = [](int64_t d) { return d == 1; };
    return g_.shape(pool.inputs[0]).rank() == 4 &&
           std::ranges::all_of(pool.attrs.ints("dilations"), one);
  }

  bool is_conv(int i) const {
    if (i < 0 || (node(i).op != "Conv" && node(i).op != "FusedConv")) return false;
    const std::vector<ValueId>& in = node(i).inputs;
    const bool residual = in.size() > 3 && in[3] != kNone;
    return !residual && is_constant(in[1]) && (in.size() < 3 || is_constant(in[2]));
  }

  std::optional<Pooled> joined(int concat) const {
    const Node& n = node(concat);
    if (g_.shape(n.outputs[0]).axis(n.attrs.i("axis"), n.op) != 1) return {};
    Pooled p{.concat = concat};
    for (ValueId v : n.inputs) {
      p.convs.push_back(maker(v));
      if (!is_conv(p.convs.back())) return {};
    }
    return p;
  }

  const Graph& g_;
  Uses uses_;
  std::set<ValueId> varying_;
};

// Padding that reaches as far as the last window.
Ints reach(const Graph& g, const Node& pool) {
  const Shape &x = g.shape(pool.inputs[0]), &y = g.shape(pool.outputs[0]);
  const Ints &kernel = pool.attrs.ints("kernel_shape"), &strides = pool.attrs.ints("strides");
  Ints pads = pool.attrs.ints("pads");
  for (size_t d = 0; d < 2; ++d) {
    const int64_t at = 2 + static_cast<int64_t>(d);
    pads[2 + d] = std::max<int64_t>((y[at] - 1) * strides[d] + kernel[d] - x[at] - pads[d], 0);
  }
  return pads;
}

Attrs fused_attrs(const Graph& g, const Node& conv, const Node& pool) {
  Attrs a = conv.attrs;
  a.set("pool_kernel", pool.attrs.ints("kernel_shape"));
  a.set("pool_strides", pool.attrs.ints("strides"));
  a.set("pool_pads", reach(g, pool));
  return a;
}

// A graph that has the node alone.
bool accepted(const Graph& g, const Node& conv, const Node& pool, const Offer& accepts) {
  Graph alone;
  std::vector<ValueId> in = {alone.add_input("x", g.type(conv.inputs[0])),
                             alone.add_param("w", g.value(conv.inputs[1]).data)};
  if (conv.inputs.size() > 2 && conv.inputs[2] != kNone) {
    in.push_back(alone.add_param("b", g.value(conv.inputs[2]).data));
  }
  alone.add1("ConvMaxPool", std::move(in), fused_attrs(g, conv, pool));
  return accepts(alone, alone.nodes().back());
}

}  // namespace

Rewritten fuse_max_pool(const Graph& g, std::span<const ValueId> keep, const Offer& accepts) {
  const Search search(g, keep);
  const auto node = [&](int i) -> const Node& { return g.nodes()[static_cast<size_t>(i)]; };
  std::map<int, Pooled> pools;
  std::vector<bool> dropped(g.nodes().size(), false);
  for (int i = 0; i < static_cast<int>(g.nodes().size()); ++i) {
    std::optional<Pooled> p = search.read_by(i);
    if (!p) continue;
    const auto taken = [&](int conv) { return accepted(g, node(conv), node(i), accepts); };
    if (!std::ranges::all_of(p->convs, taken)) continue;
    for (const int conv : p->convs) dropped[static_cast<size_t>(conv)] = true;
    if (p->concat >= 0) dropped[static_cast<size_t>(p->concat)] = true;
    pools.emplace(i, std::move(*p));
  }

  GraphCopy copy(g);
  copy.keep_inputs();
  for (ValueId v : keep) copy.get(v);
  for (int i = 0; i < static_cast<int>(g.nodes().size()); ++i) {
    const auto found = pools.find(i);
    if (found == pools.end()) {
      if (!dropped[static_cast<size_t>(i)]) copy.copy(node(i));
      continue;
    }
    std::vector<ValueId> ys;
    for (const int conv : found->second.convs) {
      std::vector<ValueId> in;
      for (ValueId v : node(conv).inputs) in.push_back(copy.get(v));
      in.resize(std::min<size_t>(in.size(), 3));
      ys.push_back(
          copy.graph().add1("ConvMaxPool", std::move(in), fused_attrs(g, node(conv), node(i))));
    }
    const int concat = found->second.concat;
    const ValueId y =
        concat < 0 ? ys[0] : copy.graph().add1("Concat", std::move(ys), node(concat).attrs);
    copy.graph().rename(y, g.value(node(i).outputs[0]).name);
    copy.replace(node(i).outputs[0], y);
  }
  Rewritten result{.graph = copy.finish(), .now = copy.now()};
  return result;
}

}  // namespace ndtrain
