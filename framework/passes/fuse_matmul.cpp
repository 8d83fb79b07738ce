#include "framework/passes/fuse_matmul.h"

#include <algorithm>
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

FusedNode fused(const Graph& g, const Chain& c) {
  return {"FusedMatMul", inputs_of(g, c), attrs_of(g, c), c.nodes()};
}

// As much of it as the device takes.
std::optional<FusedNode> accepted_part(const Graph& g, Chain c, std::span<const ValueId> varying,
                                       const Offer& accepts) {
  if (is_taken(g, fused(g, c), varying, accepts)) return fused(g, c);
  if (c.activation < 0 || c.add < 0) return {};
  c.activation = -1;
  if (!is_taken(g, fused(g, c), varying, accepts)) return {};
  return fused(g, c);
}

}  // namespace

Rewritten fuse_matmul(const Graph& g, std::span<const ValueId> keep, const Offer& accepts) {
  const Search search(g);
  std::vector<FusedNode> all;
  std::vector<bool> taken(g.nodes().size(), false);
  for (int i = 0; i < static_cast<int>(g.nodes().size()); ++i) {
    const std::optional<Chain> c = search.from(i);
    const auto is_in_another = [&](int n) { return taken[static_cast<size_t>(n)]; };
    // Of two products that are added, one is the bias of the other.
    if (!c || std::ranges::any_of(c->nodes(), is_in_another)) continue;
    std::optional<FusedNode> part = accepted_part(g, *c, keep, accepts);
    if (!part) continue;
    for (const int n : part->nodes) taken[static_cast<size_t>(n)] = true;
    all.push_back(std::move(*part));
  }
  return with_fused(g, keep, all);
}

}  // namespace ndtrain
