#include "framework/passes/fuse_attention.h"

#include <map>
#include <optional>
#include <set>

#include "framework/graph/uses.h"

namespace ndtrain {
namespace {

// The values that a chain reads, and the nodes that stand between them and its last one.
struct Chain {
  ValueId q = kNone, keys = kNone, v = kNone,
          mask = kNone;  // keys: transposed, as MatMul wants them
  double scale = 1;
  std::vector<int> inner;  // every node but the last
};

class Search {
 public:
  Search(const Graph& g, std::span<const ValueId> varying)
      : g_(g), uses_(g), varying_(varying.begin(), varying.end()) {}

  // The chain that ends in the MatMul `last`, if one does.
  std::optional<Chain> ending_in(int last) const {
    const Node& product = node(last);
    Chain c;
    const int softmax = inner(product.inputs[0], "Softmax");
    if (product.op != "MatMul" || softmax < 0 || !along_last_axis(node(softmax))) return {};
    c.v = product.inputs[1];
    c.inner.push_back(softmax);
    ValueId scores = node(softmax).inputs[0];
    scores = through_mask(scores, c);
    scores = through_scale(scores, c);
    const int first = inner(scores, "MatMul");
    if (first < 0) return {};
    c.inner.push_back(first);
    c.q = through_scale(node(first).inputs[0], c);
    c.keys = node(first).inputs[1];
    const int transpose = inner(c.keys, "Transpose");
    if (transpose >= 0) c.inner.push_back(transpose);
    return fits(c) ? std::optional(c) : std::nullopt;
  }

 private:
  const Node& node(int i) const { return g_.nodes()[static_cast<size_t>(i)]; }

  // The node that makes `v`, if it is an `op` whose result nothing else reads.
  int inner(ValueId v, std::string_view op) const {
    const int made = uses_.producer(v);
    return made >= 0 && node(made).op == op && uses_.only_once(v) ? made : -1;
  }

  bool along_last_axis(const Node& softmax) const {
    const Shape& s = g_.shape(softmax.inputs[0]);
    return s.axis(softmax.attrs.i("axis"), "axis") == s.rank() - 1;
  }

  std::optional<double> number(ValueId v) const {
    const Value& value = g_.value(v);
    if (!value.data.defined() || varying_.contains(v) || value.type.shape.count() != 1) return {};
    return value.data.to_doubles()[0];
  }

  ValueId through_scale(ValueId v, Chain& c) const {
    for (const std::string_view op : {"Mul", "Div"}) {
      const int made = inner(v, op);
      if (made < 0) continue;
      const Node& n = node(made);
      const size_t by = op == "Mul" && number(n.inputs[0]) ? 0 : 1;
      const std::optional<double> factor = number(n.inputs[by]);
      if (!factor || *factor == 0 || g_.shape(n.inputs[1 - by]) != g_.shape(v)) continue;
      c.scale *= op == "Mul" ? *factor : 1 / *factor;
      c.inner.push_back(made);
      return n.inputs[1 - by];
    }
    return v;
  }

  // The mask is the operand of an Add that is not the scores.
  ValueId through_mask(ValueId v, Chain& c) const {
    const int made = inner(v, "Add");
    if (made < 0) return v;
    for (const size_t k : {size_t{0}, size_t{1}}) {
      const ValueId scores = node(made).inputs[k], mask = node(made).inputs[1 - k];
      Chain tried = c;
      if (g_.shape(scores) != g_.shape(v) || inner(through_scale(scores, tried), "MatMul") < 0) {
        continue;
      }
      c.mask = mask;
      c.inner.push_back(made);
      return scores;
    }
    return v;
  }

  bool fits(const Chain& c) const {
    const Shape &q = g_.shape(c.q), &k = g_.shape(c.keys), &v = g_.shape(c.v);
    return q.rank() == 4 && k == Shape{q[0], q[1], q[3], k[-1]} &&
           v == Shape{q[0], q[1], k[-1], v[-1]};
  }

  const Graph& g_;
  Uses uses_;
  std::set<ValueId> varying_;
};

// As [B, H, T, D]: through the Transpose that made them, where that reads well.
ValueId upright_keys(GraphCopy& copy, const Graph& g, const Uses& uses, ValueId keys) {
  const int made = uses.producer(keys);
  if (made < 0 || g.nodes()[static_cast<size_t>(made)].op != "Transpose") {
    return copy.graph().add1("Transpose", {copy.get(keys)}, {{"perm", Ints{0, 1, 3, 2}}});
  }
  const Node& transpose = g.nodes()[static_cast<size_t>(made)];
  Ints perm = transpose.attrs.ints("perm");
  std::swap(perm[2], perm[3]);
  return copy.graph().add1("Transpose", {copy.get(transpose.inputs[0])}, {{"perm", perm}});
}

// Asked about in a graph of its own, which has what the chain reads as inputs.
bool accepted(const Graph& g, const Chain& c, const Offer& accepts) {
  const Shape& k = g.shape(c.keys);
  Graph alone;
  std::vector<ValueId> in = {alone.add_input("q", g.type(c.q)),
                             alone.add_input("k", {g.type(c.keys).dtype, {k[0], k[1], k[3], k[2]}}),
                             alone.add_input("v", g.type(c.v))};
  if (c.mask != kNone) in.push_back(alone.add_input("mask", g.type(c.mask)));
  alone.add1("FusedAttention", in, {{"scale", c.scale}});
  return accepts(alone, alone.nodes().back());
}

std::map<int, Chain> accepted_chains(const Graph& g, std::span<const ValueId> varying,
                                     const Offer& accepts) {
  const Search search(g, varying);
  std::map<int, Chain> chains;
  for (int i = 0; i < static_cast<int>(g.nodes().size()); ++i) {
    std::optional<Chain> c = search.ending_in(i);
    if (c && accepted(g, *c, accepts)) chains.emplace(i, std::move(*c));
  }
  return chains;
}

}  // namespace

Rewritten fuse_attention(const Graph& g, std::span<const ValueId> keep, const Offer& accepts) {
  const Uses uses(g);
  const std::map<int, Chain> chains = accepted_chains(g, keep, accepts);
  std::vector<bool> dropped(g.nodes().size(), false);
  for (const auto& [last, c] : chains) {
    for (int n : c.inner) dropped[static_cast<size_t>(n)] = true;
  }
  GraphCopy copy(g);
  copy.keep_inputs();
  for (ValueId v : keep) copy.get(v);
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    const Node& n = g.nodes()[i];
    const auto chain = chains.find(static_cast<int>(i));
    if (chain == chains.end()) {
      if (!dropped[i]) copy.copy(n);
      continue;
    }
    const Chain& c = chain->second;
    std::vector<ValueId> in = {copy.get(c.q), upright_keys(copy, g, uses, c.keys), copy.get(c.v)};
    if (c.mask != kNone) in.push_back(copy.get(c.mask));
    const ValueId y = copy.graph().add1("FusedAttention", std::move(in), {{"scale", c.scale}});
    copy.graph().rename(y, g.value(n.outputs[0]).name);
    copy.replace(n.outputs[0], y);
  }
  Rewritten result{.graph = copy.finish(), .now = copy.now()};
  return result;
}

}  // namespace ndtrain
