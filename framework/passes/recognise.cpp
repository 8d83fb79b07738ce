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

// `op` of x, and of x alone.
std::vector<Match> find_unary(const Matcher& m, const std::string& op, const P& pattern) {
  return find_pattern(m, pattern, [&](const Bound& b) -> std::optional<Match> {
    if (m.type(b["x"]) != m.type(b["y"])) return {};
    return fused(op, {b["x"]}, {}, b.nodes);
  });
}

// x * (1 + erf(x / sqrt(2))) / 2, factors in any order
std::vector<Match> find_gelu(const Matcher& m) {
  const P ratio = either({P("Div", {"x", std::sqrt(2.0)}), P("Mul", {"x", std::sqrt(0.5)})});
  const P gate("Add", {P("Erf", {ratio}), 1.0});
  return find_unary(m, "Gelu",
                    either({P("Mul", {P("Mul", {"x", gate}), 0.5}, "y"),
                            P("Mul", {P("Mul", {"x", 0.5}), gate}, "y"),
                            P("Mul", {P("Mul", {gate, 0.5}), "x"}, "y")}));
}

bool is_hard_gate(const Matcher& m, int i) {
  const Attrs& a = m.node(i).attrs;
  return m.is(i, "HardSigmoid") && std::abs(a.f("alpha") - 1.0 / 6) <= 1e-6 &&
         std::abs(a.f("beta") - 0.5) <= 1e-6;
}

// x * HardSigmoid(x) with alpha 1/6 and beta 1/2
std::vector<Match> find_hard_swish(const Matcher& m) {
  return find_unary(m, "HardSwish", P("Mul", {"x", P(is_hard_gate, {"x"})}, "y"));
}

bool is_mean_of_rows(const Matcher& m, int i) {
  if (!m.is(i, "ReduceMean") || !m.node(i).attrs.flag("keepdims")) return false;
  const std::optional<double> axis = m.number(m.input(i, 1));
  const Shape& x = m.shape(m.input(i, 0));
  return axis && x.axis(static_cast<int64_t>(*axis), "axis") == x.rank() - 1;
}

// (x - mean) / sqrt(var + epsilon) * scale + bias over the last axis
std::vector<Match> find_layer_norm(const Matcher& m) {
  const P centred("Sub", {"x", P(is_mean_of_rows, {"x"})}, "centred");
  const P var(is_mean_of_rows, {P("Pow", {"centred", 2.0})});
  const P standardised("Div", {centred, P("Sqrt", {P("Add", {var, "epsilon"})})});
  const P whole("Add", {P("Mul", {standardised, "scale"}), "bias"}, "y");
  return find_pattern(m, whole, [&](const Bound& b) -> std::optional<Match> {
    const Shape& y = m.shape(b["y"]);
    const std::optional<double> epsilon = m.number(b["epsilon"]);
    const auto is_row = [&](ValueId v) { return m.is_fixed(v) && m.shape(v) == Shape{y[-1]}; };
    if (!epsilon || y.rank() < 2 || !is_row(b["scale"]) || !is_row(b["bias"])) return {};
    if (m.type(b["x"]) != m.type(b["y"])) return {};
    return fused("LayerNormalization", {b["x"], b["scale"], b["bias"]},
                 {{"axis", int64_t{-1}}, {"epsilon", *epsilon}}, b.nodes);
  });
}

// The axes of a ReduceMean, from the front and rising; none where it does not name them.
std::vector<int64_t> axes_of(const Matcher& m, int i) {
  const ValueId named = m.input(i, 1);
  if (named == kNone || !m.is_fixed(named)) return {};
  const auto values = m.graph().value(named).data.as<int64_t>();
  std::vector<int64_t> axes;
  for (const int64_t a : values) {
    axes.push_back(m.shape(m.input(i, 0)).axis(a, "axes"));
  }
  std::ranges::sort(axes);
  return axes;
}

// The mean of each map of [N, C, H, W], which stays a map of one pixel or becomes a number.
std::vector<Match> find_means_of_maps(const Matcher& m) {
  std::vector<Match> all;
  for (int i = 0; i < m.nodes(); ++i) {
    if (!m.is(i, "ReduceMean")) continue;
    const ValueId x = m.input(i, 0);
    if (!is_float(m.dtype(x)) || m.shape(x).rank() != 4 || m.shape(x).count() == 0) continue;
    if (axes_of(m, i) != std::vector<int64_t>{2, 3}) continue;
    if (m.node(i).attrs.flag("keepdims")) {
      all.push_back(fused("GlobalAveragePool", {x}, {}, {i}));
      continue;
    }
    all.push_back({{i}, [x](GraphCopy& to) {
                     const ValueId pooled = to.graph().add1("GlobalAveragePool", {to.get(x)});
                     return to.graph().add1("Flatten", {pooled});
                   }});
  }
  return all;
}

std::vector<Match> find_functions(const Matcher& m) {
  std::vector<Match> all;
  for (const auto find : {find_gelu, find_hard_swish, find_layer_norm, find_means_of_maps}) {
    std::ranges::move(find(m), std::back_inserter(all));
  }
  return all;
}

}  // namespace

const Rewrite kFunctions{find_functions};

}  // namespace ndtrain
