// Functions that exporters spell out in elementary ops, since the opset they wrote had no more, as
// the ops that they are: backends have kernels for those, and other rewrites know them. Where
// nobody else reads what lies between, and constants are what they should be.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "framework/passes/pattern.h"
#include "framework/passes/rewrites.h"

namespace ndtrain {
namespace {

using P = Pattern;

std::optional<Match> of_one(const Matcher& m, const Bound& b, std::string op) {
  if (m.graph().type(b["x"]) != m.graph().type(b["y"])) return {};
  return fused(std::move(op), {b["x"]}, {}, b.nodes);
}

// x * (1 + erf(x / sqrt(2))) / 2, factors in any order
std::vector<Match> gelu(const Matcher& m) {
  const P ratio = either({P("Div", {"x", std::sqrt(2.0)}), P("Mul", {"x", std::sqrt(0.5)})});
  const P gate("Add", {P("Erf", {ratio}), 1.0});
  const P product = either({P("Mul", {P("Mul", {"x", gate}), 0.5}, "y"),
                            P("Mul", {P("Mul", {"x", 0.5}), gate}, "y"),
                            P("Mul", {P("Mul", {gate, 0.5}), "x"}, "y")});
  return find_pattern(m, product, [&](const Bound& b) { return of_one(m, b, "Gelu"); });
}

// x * HardSigmoid(x) with alpha 1/6 and beta 1/2
std::vector<Match> hard_swish(const Matcher& m) {
  const P product("Mul", {"x", P("HardSigmoid", {"x"}, "gate")}, "y");
  return find_pattern(m, product, [&](const Bound& b) -> std::optional<Match> {
    const Attrs& a = m.node(m.producer(b["gate"])).attrs;
    if (std::abs(a.f("alpha") - 1.0 / 6) > 1e-6 || std::abs(a.f("beta") - 0.5) > 1e-6) return {};
    return of_one(m, b, "HardSwish");
  });
}

bool is_over_last_axis(const Matcher& m, ValueId mean) {
  const Node& n = m.node(m.producer(mean));
  const Shape& x = m.shape(n.inputs[0]);
  const std::optional<double> axis = m.number(n.inputs[1]);
  return n.attrs.flag("keepdims") && axis &&
         x.axis(static_cast<int64_t>(*axis), n.op) == x.rank() - 1;
}

// (x - mean) / sqrt(var + epsilon) * scale + bias over the last axis
std::vector<Match> layer_norm(const Matcher& m) {
  const P centred("Sub", {"x", P("ReduceMean", {"x", "axis"}, "mean")}, "centred");
  const P var("ReduceMean", {P("Pow", {"centred", 2.0}), "var axis"}, "var");
  const P standardised("Div", {centred, P("Sqrt", {P("Add", {var, "epsilon"})})});
  const P whole("Add", {P("Mul", {standardised, "scale"}), "bias"}, "y");
  return find_pattern(m, whole, [&](const Bound& b) -> std::optional<Match> {
    const Shape& y = m.shape(b["y"]);
    const std::optional<double> epsilon = m.number(b["epsilon"]);
    const auto is_row = [&](ValueId v) { return m.is_fixed(v) && m.shape(v) == Shape{y[-1]}; };
    if (!epsilon || y.rank() < 2 || !is_row(b["scale"]) || !is_row(b["bias"])) return {};
    if (!is_over_last_axis(m, b["mean"]) || !is_over_last_axis(m, b["var"])) return {};
    if (m.graph().type(b["x"]) != m.graph().type(b["y"])) return {};
    return fused("LayerNormalization", {b["x"], b["scale"], b["bias"]},
                 {{"axis", int64_t{-1}}, {"epsilon", *epsilon}}, b.nodes);
  });
}

std::vector<Match> find_functions(const Matcher& m) {
  std::vector<Match> all;
  for (const auto find : {gelu, hard_swish, layer_norm}) {
    std::ranges::move(find(m), std::back_inserter(all));
  }
  return all;
}

}  // namespace

const Rewrite kFunctions{find_functions};

}  // namespace ndtrain
