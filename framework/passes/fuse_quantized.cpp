// Quantised graphs as they are written down (QDQ: DequantizeLinear, an f32 op, QuantizeLinear) as
// what is computed: convolutions of bytes as FusedQLinearConv, and ops that only move or choose
// numbers on the bytes themselves. What is dequantised and not fused stays f32.
#include <algorithm>
#include <cmath>

#include "framework/passes/linear.h"
#include "framework/passes/pattern.h"
#include "framework/passes/rewrites.h"

namespace ndtrain {
namespace {

using P = Pattern;

// A convolution's bias in units of x's scale times w's, as i32: as it was quantised, or quantised
// here.
std::optional<Tensor> bias_of(const Matcher& m, ValueId bias, const Linear& x, const Linear& w) {
  const std::optional<Linear> dq = dequantized(m, bias);
  const Tensor& stored = m.graph().value(dq ? dq->stored : bias).data;
  if (!stored.defined()) return {};
  std::vector<double> values = stored.to_doubles();
  for (size_t c = 0; c < values.size(); ++c) {
    const double real = dq ? (values[c] - dq->zero_point) * dq->scale_of(c) : values[c];
    values[c] = std::nearbyint(real / (x.scales[0] * w.scale_of(c)));
    if (!(std::abs(values[c]) < 0x1p31)) return {};
  }
  return Tensor::from_doubles({DType::kI32, stored.shape()}, values);
}

std::optional<Match> quantized_conv(const Matcher& m, int i, const Linear& y, const Bound& b) {
  const ValueId bias = m.input(i, 2), residual = m.input(i, 3);
  const std::optional<Linear> x = dequantized_bytes(m, m.input(i, 0)),
                              w = dequantized(m, m.input(i, 1)),
                              added = dequantized_bytes(m, residual);
  if (!x || !w || !w->is_byte() || !m.is_fixed(w->stored)) return {};
  if ((w->scales.size() != 1 && w->axis != 0) || (residual != kNone && !added)) return {};
  std::optional<Tensor> rounded;
  if (bias != kNone && !(rounded = bias_of(m, bias, *x, *w))) return {};
  return Match{b.nodes, [=, attrs = m.node(i).attrs](GraphCopy& to) {
                 std::vector<ValueId> in;
                 add_scaled(*x, to, in);
                 add_scaled(*w, to, in);
                 add_scale(y, to, in);
                 in.push_back(rounded ? to.graph().add_constant("", *rounded) : kNone);
                 if (added) add_scaled(*added, to, in);
                 return to.graph().add1("FusedQLinearConv", std::move(in), attrs);
               }};
}

// The same bytes come of it whether before or after dequantising.
std::optional<Match> moved_bytes(const Matcher& m, int i, const Linear& y, const Bound& b) {
  const Node& n = m.node(i);
  if (find_op(n.op).facts.kind != OpKind::kMove || n.outputs.size() != 1) return {};
  std::vector<ValueId> in = n.inputs;
  for (ValueId& v : std::span(in).first(data_inputs(find_op(n.op), in.size()))) {
    const std::optional<Linear> x = dequantized_bytes(m, v);
    if (!x || !x->is_alike(y)) return {};
    v = x->stored;
  }
  return fused(n.op, std::move(in), n.attrs, b.nodes);
}

std::vector<Match> find_quantized(const Matcher& m) {
  const auto any = [](const Matcher&, int) { return true; };
  const P whole("QuantizeLinear", {P(any, {}, "x")}, "y");
  return find_pattern(m, whole, [&](const Bound& b) -> std::optional<Match> {
    const int i = m.producer(b["x"]);
    const std::optional<Linear> y = quantized_bytes(m, b["y"]);
    if (!y) return {};
    return is_conv(m, i) ? quantized_conv(m, i, *y, b) : moved_bytes(m, i, *y, b);
  });
}

}  // namespace

const Rewrite kQuantized{find_quantized};

}  // namespace ndtrain
