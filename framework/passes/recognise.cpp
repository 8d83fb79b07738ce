#include "framework/passes/recognise.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "framework/graph/uses.h"
#include "framework/passes/offer.h"

namespace ndtrain {
namespace {

class Search {
 public:
  explicit Search(const Graph& g) : g_(g), uses_(g) {}

  // The function whose result this node computes, if any.
  std::optional<FusedNode> ending_with(int last) const {
    const Node& n = node(last);
    std::optional<FusedNode> found;
    if (n.op == "Mul") found = gelu(last);
    if (n.op == "Mul" && !found) found = hard_swish(last);
    if (n.op == "Add") found = layer_norm(last);
    if (!found || g_.type(found->inputs[0]) != g_.type(n.outputs[0])) return {};
    std::ranges::sort(found->nodes);
    return found;
  }

 private:
  struct Operands {
    ValueId value;  // as asked for
    ValueId other;
  };

  const Node& node(int i) const { return g_.nodes()[static_cast<size_t>(i)]; }

  bool is_number(ValueId v, double wanted) const {
    const Tensor& t = g_.value(v).data;
    if (!t.defined() || t.shape().count() != 1) return false;
    return std::abs(t.to_doubles()[0] - wanted) <= 1e-6 * std::abs(wanted);
  }

  // The node that computes `v` by `op` for `readers` readers; else -1.
  int made_by(const char* op, ValueId v, int readers = 1) const {
    const int i = uses_.producer(v);
    return i >= 0 && node(i).op == op && uses_.count(v) == readers ? i : -1;
  }

  // Of a node that computes `v` from a number, what else it reads; else none.
  std::optional<ValueId> with_number(const char* op, ValueId v, double number,
                                     std::vector<int>& nodes) const {
    const int i = made_by(op, v);
    if (i < 0) return {};
    const std::vector<ValueId>& in = node(i).inputs;
    const bool ordered = node(i).op == "Div" || node(i).op == "Pow";
    for (size_t k = ordered ? 1 : 0; k < 2; ++k) {
      if (!is_number(in[k], number)) continue;
      nodes.push_back(i);
      return in[1 - k];
    }
    return {};
  }

  // What is multiplied to make the node's result, through products that nobody else reads.
  void factors(int product, std::vector<ValueId>& values, std::vector<int>& nodes) const {
    nodes.push_back(product);
    for (ValueId v : node(product).inputs) {
      const int inner = made_by("Mul", v);
      if (inner >= 0 && values.size() < 4) {
        factors(inner, values, nodes);
      } else {
        values.push_back(v);
      }
    }
  }

  std::optional<FusedNode> gelu(int last) const {
    FusedNode f{"Gelu", {}, {}, {}};
    std::vector<ValueId> values;
    factors(last, values, f.nodes);
    if (values.size() != 3) return {};
    const auto half = std::ranges::find_if(values, [&](ValueId v) { return is_number(v, 0.5); });
    if (half == values.end()) return {};
    values.erase(half);
    for (const size_t k : {0, 1}) {
      std::vector<int> nodes = f.nodes;
      const auto erf = with_number("Add", values[k], 1, nodes);
      const int at = erf ? made_by("Erf", *erf) : -1;
      if (at < 0) continue;
      nodes.push_back(at);
      auto x = with_number("Div", node(at).inputs[0], std::sqrt(2.0), nodes);
      if (!x) x = with_number("Mul", node(at).inputs[0], std::sqrt(0.5), nodes);
      if (!x || *x != values[1 - k]) continue;
      f.inputs = {*x};
      f.nodes = nodes;
      return f;
    }
    return {};
  }

  std::optional<FusedNode> hard_swish(int last) const {
    const std::vector<ValueId>& in = node(last).inputs;
    for (const size_t k : {0, 1}) {
      const int gate = made_by("HardSigmoid", in[k]);
      if (gate < 0 || node(gate).inputs[0] != in[1 - k]) continue;
      const Attrs& a = node(gate).attrs;
      if (std::abs(a.f("alpha") - 1.0 / 6) > 1e-6 || std::abs(a.f("beta") - 0.5) > 1e-6) continue;
      return FusedNode{"HardSwish", {in[1 - k]}, {}, {gate, last}};
    }
    return {};
  }

  bool is_mean_over_last(int i) const {
    const Node& n = node(i);
    if (!n.attrs.flag("keepdims") || n.inputs.size() < 2) return false;
    const Tensor& axes = g_.value(n.inputs[1]).data;
    const Shape& x = g_.shape(n.inputs[0]);
    return axes.defined() && axes.shape().count() == 1 &&
           x.axis(axes.to_ints()[0], n.op) == x.rank() - 1;
  }

  // One constant value for each element of a row of `x`, after `op` of it and something else.
  std::optional<Operands> with_row(const char* op, int i, ValueId x) const {
    if (node(i).op != op) return {};
    const std::vector<ValueId>& in = node(i).inputs;
    for (const size_t k : {0, 1}) {
      const bool is_row = g_.value(in[k]).data.defined() && g_.shape(in[k]).rank() == 1 &&
                          g_.shape(in[k])[0] == g_.shape(x)[-1];
      if (is_row) return Operands{in[k], in[1 - k]};
    }
    return {};
  }

  std::optional<FusedNode> layer_norm(int last) const {
    const ValueId y = node(last).outputs[0];
    if (g_.shape(y).rank() < 2) return {};
    FusedNode f{"LayerNormalization", {}, {}, {last}};
    const auto bias = with_row("Add", last, y);
    if (!bias) return {};
    const int product = made_by("Mul", bias->other);
    if (product < 0) return {};
    const auto scale = with_row("Mul", product, y);
    const int quotient = scale ? made_by("Div", scale->other) : -1;
    if (quotient < 0) return {};
    f.nodes.insert(f.nodes.end(), {product, quotient});
    const auto x = standardised(quotient, f);
    if (!x) return {};
    f.inputs = {*x, scale->value, bias->value};
    f.attrs.set("axis", int64_t{-1});
    return f;
  }

  // The x of a quotient that is (x - mean) / sqrt(var + epsilon); sets epsilon.
  std::optional<ValueId> standardised(int quotient, FusedNode& f) const {
    const ValueId centred = node(quotient).inputs[0];
    const int root = made_by("Sqrt", node(quotient).inputs[1]);
    const int sum = root < 0 ? -1 : made_by("Add", node(root).inputs[0]);
    if (sum < 0) return {};
    const size_t k = g_.value(node(sum).inputs[0]).data.defined() ? 0 : 1;
    const Tensor& epsilon = g_.value(node(sum).inputs[k]).data;
    const int var = made_by("ReduceMean", node(sum).inputs[1 - k]);
    if (var < 0 || !epsilon.defined() || epsilon.shape().count() != 1) return {};
    f.nodes.insert(f.nodes.end(), {root, sum, var});
    const auto squared = with_number("Pow", node(var).inputs[0], 2, f.nodes);
    const int difference = made_by("Sub", centred, 2);
    if (!squared || *squared != centred || difference < 0) return {};
    const ValueId x = node(difference).inputs[0];
    const int mean = made_by("ReduceMean", node(difference).inputs[1]);
    if (mean < 0 || node(mean).inputs[0] != x) return {};
    if (!is_mean_over_last(mean) || !is_mean_over_last(var)) return {};
    f.nodes.insert(f.nodes.end(), {difference, mean});
    f.attrs.set("epsilon", epsilon.to_doubles()[0]);
    return x;
  }

  const Graph& g_;
  Uses uses_;
};

}  // namespace

Graph recognise_functions(const Graph& g) {
  const Search search(g);
  std::vector<FusedNode> all;
  for (int i = 0; i < static_cast<int>(g.nodes().size()); ++i) {
    if (auto found = search.ending_with(i)) all.push_back(std::move(*found));
  }
  return all.empty() ? g : with_fused(g, {}, all).graph;
}

}  // namespace ndtrain
