#include "framework/graph/fuse_matmul.h"

#include <algorithm>
#include <map>
#include <optional>

#include "framework/graph/uses.h"

namespace ndtrain {
namespace {

struct Chain {
  int product = -1, add = -1, activation = -1;
  ValueId bias = kNone;

  int last() const { return activation >= 0 ? activation : add >= 0 ? add : product; }
  std::vector<int> nodes() const {
    std::vector<int> all = {product, add, activation};
    std::erase(all, -1);
    return all;
  }
};

class Search {
 public:
  explicit Search(const Graph& g) : g_(g), uses_(g) {}

  // What begins with this node, if anything does.
  std::optional<Chain> from(int product) const {
    Chain c{.product = product};
    const Node& n = node(product);
    if (n.op != "MatMul" && n.op != "Gemm") return {};
    if (g_.shape(n.inputs[0]).rank() < 2 || g_.shape(n.inputs[1]).rank() != 2) return {};
    if (n.op == "Gemm") {
      if (n.attrs.f("alpha") != 1 || n.attrs.flag("transA")) return {};
      if (n.inputs.size() > 2) c.bias = n.inputs[2];
      if (c.bias != kNone && (n.attrs.f("beta") != 1 || !per_column(c.bias, y(c)))) return {};
    }
    if (c.bias == kNone) take_bias(c);
    take_activation(c);
    return c.last() == product ? std::nullopt : std::optional(c);
  }

 private:
  const Node& node(int i) const { return g_.nodes()[static_cast<size_t>(i)]; }
  ValueId y(const Chain& c) const { return node(c.last()).outputs[0]; }
  // The node that alone reads `v`; else -1.
  int reader(ValueId v) const { return uses_.only_once(v) ? uses_.last_consumer(v) : -1; }

  bool per_column(ValueId bias, ValueId of) const {
    const Shape &b = g_.shape(bias), &s = g_.shape(of);
    return b.rank() > 0 && b[-1] == s[-1] && b.count() == s[-1] && b.rank() <= s.rank() &&
           g_.type(bias).dtype == g_.type(of).dtype;
  }

  void take_bias(Chain& c) const {
    const int next = reader(y(c));
    if (next < 0 || node(next).op != "Add") return;
    const std::vector<ValueId>& in = node(next).inputs;
    const ValueId bias = in[0] == y(c) ? in[1] : in[0];
    if (!per_column(bias, y(c))) return;
    c.bias = bias;
    c.add = next;
  }

  void take_activation(Chain& c) const {
    const int next = reader(y(c));
    if (next >= 0 && (node(next).op == "Relu" || node(next).op == "Gelu")) c.activation = next;
  }

  const Graph& g_;
  Uses uses_;
};

Attrs attrs_of(const Graph& g, const Chain& c) {
  const auto node = [&](int i) -> const Node& { return g.nodes()[static_cast<size_t>(i)]; };
  Attrs a;
  if (node(c.product).op == "Gemm") a.set("transB", node(c.product).attrs.i("transB"));
  if (c.activation < 0) return a;
  a.set("activation", node(c.activation).op);
  if (node(c.activation).op == "Gelu") {
    a.set("approximate", node(c.activation).attrs.s("approximate"));
  }
  return a;
}

std::vector<ValueId> inputs_of(const Graph& g, const Chain& c) {
  const Node& product = g.nodes()[static_cast<size_t>(c.product)];
  std::vector<ValueId> in = {product.inputs[0], product.inputs[1]};
  if (c.bias != kNone) in.push_back(c.bias);
  return in;
}

// Asked about in a graph of its own; what may change from run to run has no data there.
bool accepted(const Graph& g, const Chain& c, std::span<const ValueId> varying,
              const Offer& accepts) {
  Graph alone;
  std::vector<ValueId> in;
  for (const ValueId v : inputs_of(g, c)) {
    const std::string name = "x" + std::to_string(in.size());
    const bool constant =
        g.value(v).data.defined() && std::ranges::find(varying, v) == varying.end();
    in.push_back(constant ? alone.add_param(name, g.value(v).data)
                          : alone.add_input(name, g.type(v)));
  }
  alone.add1("FusedMatMul", std::move(in), attrs_of(g, c));
  return accepts(alone, alone.nodes().back());
}

// As much of it as the device takes.
std::optional<Chain> accepted_part(const Graph& g, Chain c, std::span<const ValueId> varying,
                                   const Offer& accepts) {
  if (accepted(g, c, varying, accepts)) return c;
  if (c.activation < 0 || c.add < 0) return {};
  c.activation = -1;
  return accepted(g, c, varying, accepts) ? std::optional(c) : std::nullopt;
}

}  // namespace

Rewritten fuse_matmul(const Graph& g, std::span<const ValueId> keep, const Offer& accepts) {
  const Search search(g);
  std::map<int, Chain> by_last;
  std::vector<bool> taken(g.nodes().size(), false);
  for (int i = 0; i < static_cast<int>(g.nodes().size()); ++i) {
    std::optional<Chain> c = search.from(i);
    const auto is_taken = [&](int n) { return taken[static_cast<size_t>(n)]; };
    // Of two products that are added, one is the bias of the other.
    if (!c || std::ranges::any_of(c->nodes(), is_taken)) continue;
    c = accepted_part(g, *c, keep, accepts);
    if (!c) continue;
    for (const int n : c->nodes()) taken[static_cast<size_t>(n)] = true;
    by_last.emplace(c->last(), *c);
  }

  GraphCopy copy(g);
  copy.keep_inputs();
  for (ValueId v : keep) copy.get(v);
  for (int i = 0; i < static_cast<int>(g.nodes().size()); ++i) {
    const Node& n = g.nodes()[static_cast<size_t>(i)];
    const auto chain = by_last.find(i);
    if (chain == by_last.end()) {
      if (!taken[static_cast<size_t>(i)]) copy.copy(n);
      continue;
    }
    std::vector<ValueId> in;
    for (ValueId v : inputs_of(g, chain->second)) in.push_back(copy.get(v));
    const ValueId y = copy.graph().add1("FusedMatMul", std::move(in), attrs_of(g, chain->second));
    copy.graph().rename(y, g.value(n.outputs[0]).name);
    copy.replace(n.outputs[0], y);
  }
  Rewritten result{.graph = copy.finish(), .now = copy.now()};
  return result;
}

}  // namespace ndtrain
