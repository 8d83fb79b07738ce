// CausalConvWithState: each channel of x [N, C, L] through a kernel of its own, W [C, 1, k], which
// looks at a place and the k - 1 before it: those of the state [N, C, k - 1], or zeros. The state
// that it leaves is the last k - 1. As a Conv it is one of C groups behind a Concat.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

using Kind = AttrSpec::Kind;

bool is_silu(const Attrs& a) { return a.s("activation") == "silu" || a.s("activation") == "swish"; }

// What goes before x: the state's shape.
Shape state_of(const Shape& x, const Shape& w) { return {x[0], x[1], w[2] - 1}; }

void infer(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  for (size_t i = 1; i < c.in.size(); ++i) require_same_dtype(c, 0, i);
  const Shape &x = c.shape(0), &w = c.shape(1);
  if (x.rank() != 3 || w.rank() != 3 || w[0] != x[1] || w[1] != 1 || w[2] < 1) {
    throw Error("x is ", c.in[0], " and the weight ", c.in[1], ", must be [N, C, L] and [C, 1, k]");
  }
  if (c.has(2) && c.shape(2) != Shape{x[1]}) throw Error("the bias is ", c.in[2]);
  const Shape state = state_of(x, w);
  if (c.has(3) && c.shape(3) != state) throw Error("past_state is ", c.in[3], ", must be ", state);
  if (c.attrs.s("activation") != "none" && !is_silu(c.attrs)) {
    throw Error("activation is '", c.attrs.s("activation"), "', must be none, silu or swish");
  }
  c.out = {c.in[0], {c.in[0].dtype, state}};
}

void reference(const ReferenceContext& c) {
  const Shape& x = c.shape(0);
  const int64_t length = x[2], before = c.shape(1)[2] - 1;
  for (int64_t plane = 0; plane < x[0] * x[1]; ++plane) {
    const int64_t channel = plane % x[1];
    const auto at = [&](int64_t i) {  // from -before on
      if (i >= 0) return c.in[0][plane * length + i];
      return c.has(3) ? c.in[3][plane * before + before + i] : 0;
    };
    for (int64_t i = 0; i < length; ++i) {
      double sum = c.has(2) ? c.in[2][channel] : 0;
      for (int64_t k = 0; k <= before; ++k) {
        sum += c.in[1][channel * (before + 1) + k] * at(i - before + k);
      }
      c.out[0][plane * length + i] = is_silu(c.attrs) ? sum / (1 + std::exp(-sum)) : sum;
    }
    for (int64_t i = 0; i < before; ++i) c.out[1][plane * before + i] = at(length - before + i);
  }
}

std::vector<ValueId> compose(ComposeContext& c) {
  Graph& g = c.g;
  const Shape x = c.shape(0), state = state_of(x, c.shape(1));
  ValueId all = c.x(0);
  if (state[2] > 0) {
    const ValueId past = c.has(3) ? c.x(3) : expand(g, scalar_like(g, 0, all), state);
    all = g.add1("Concat", {past, all}, {{"axis", int64_t{2}}});
  }
  ValueId y = g.add1("Conv", {all, c.x(1), c.has(2) ? c.x(2) : kNone}, {{"group", x[1]}});
  if (is_silu(c.node.attrs)) y = g.add1("Mul", {y, g.add1("Sigmoid", {y})});
  const int64_t end = g.shape(all)[2];
  return {y, g.add1("Slice", {all, g.add_constant("", Ints{end - state[2]}),
                              g.add_constant("", Ints{end}), g.add_constant("", Ints{2})})};
}

int64_t terms(const Attrs&, std::span<const TensorType> in) { return in[1].shape[2]; }

std::vector<Example> examples() {
  using E = ExampleInput;
  const Attrs silu{{"activation", "silu"}};
  return {{{{2, 3, 5}, {3, 1, 4}}, {}, 2},
          {{{2, 3, 2}, {3, 1, 4}, {3}, {2, 3, 3}}, silu, 2},
          {{{1, 2, 4}, {2, 1, 1}, {2}}, {{"activation", "swish"}}, 2},
          {{{1, 2, 1}, {2, 1, 3}, E::absent(), {1, 2, 2}}, {}, 2},
          {{{DType::kF64, {1, 2, 3}}, {DType::kF64, {2, 1, 2}}}, {}, 2}};
}

}  // namespace

std::vector<OpDef> causal_conv_ops() {
  return {{.name = "CausalConvWithState",
           .facts = {.onnx = 27, .rank = RankRule::kFirst},
           .min_inputs = 2,
           .max_inputs = 4,
           .min_outputs = 2,
           .max_outputs = 2,
           .attrs = {{"activation", Kind::kString, Attr("none")}},
           .infer = infer,
           .reference = reference,
           .terms = terms,
           .compose = compose,
           .examples = examples()}};
}

}  // namespace ndtrain
