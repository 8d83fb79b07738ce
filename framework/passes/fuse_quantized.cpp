// Quantised graphs as they are written down (QDQ: DequantizeLinear, an f32 op, QuantizeLinear) as
// what is computed: convolutions of bytes as FusedQLinearConv, and ops that only move or choose
// numbers on the bytes themselves. What is dequantised and not fused stays f32.
#include <algorithm>
#include <cmath>

#include "framework/passes/pattern.h"
#include "framework/passes/rewrites.h"

namespace ndtrain {
namespace {

using P = Pattern;

// What a QuantizeLinear or a DequantizeLinear has beside its f32 side, all but `stored` constant.
struct Linear {
  ValueId stored, scale, zero;  // `zero` may be kNone
  DType dtype;                  // of `stored`
  int64_t axis;
  std::vector<double> scales;  // one, or one for each index of the axis
  double zero_point;

  bool is_byte() const { return dtype == DType::kI8 || dtype == DType::kU8; }
  bool has_one_scale() const { return scales.size() == 1 && scales[0] > 0; }
  double scale_of(size_t index) const { return scales[scales.size() == 1 ? 0 : index]; }
  bool is_alike(const Linear& other) const {
    return scales == other.scales && zero_point == other.zero_point && dtype == other.dtype;
  }
};

const Tensor& data(const Matcher& m, ValueId v) { return m.graph().value(v).data; }

std::optional<Linear> linear(const Matcher& m, int i, ValueId stored) {
  const ValueId scale = m.input(i, 1), zero = m.input(i, 2);
  const Attrs& attrs = m.node(i).attrs;
  if (!m.is_fixed(scale) || m.dtype(scale) != DType::kF32) return {};
  if ((zero != kNone && !m.is_fixed(zero)) || attrs.i("block_size") != 0) return {};
  return Linear{.stored = stored,
                .scale = scale,
                .zero = zero,
                .dtype = m.dtype(stored),
                .axis = attrs.i("axis"),
                .scales = data(m, scale).to_doubles(),
                .zero_point = zero == kNone ? 0 : data(m, zero).to_doubles()[0]};
}

// What `v` is dequantised from.
std::optional<Linear> dequantized(const Matcher& m, ValueId v) {
  const int i = m.producer(v);
  if (!m.is(i, "DequantizeLinear")) return {};
  return linear(m, i, m.input(i, 0));
}

// Where that is bytes of one scale.
std::optional<Linear> dequantized_bytes(const Matcher& m, ValueId v) {
  std::optional<Linear> l = dequantized(m, v);
  if (l && !(l->is_byte() && l->has_one_scale())) l.reset();
  return l;
}

// A convolution's bias in units of x's scale times w's, as i32: as it was quantised, or quantised
// here.
std::optional<Tensor> bias_of(const Matcher& m, ValueId bias, const Linear& x, const Linear& w) {
  const std::optional<Linear> dq = dequantized(m, bias);
  const Tensor& stored = data(m, dq ? dq->stored : bias);
  if (!stored.defined()) return {};
  std::vector<double> values = stored.to_doubles();
  for (size_t c = 0; c < values.size(); ++c) {
    const double real = dq ? (values[c] - dq->zero_point) * dq->scale_of(c) : values[c];
    values[c] = std::nearbyint(real / (x.scales[0] * w.scale_of(c)));
    if (!(std::abs(values[c]) < 0x1p31)) return {};
  }
  return Tensor::from_doubles({DType::kI32, stored.shape()}, values);
}

// The scale, and a zero point that is there: the op demands one.
void add_scale(const Linear& l, GraphCopy& to, std::vector<ValueId>& in) {
  in.push_back(to.get(l.scale));
  in.push_back(to.get(l.zero));
  if (l.zero == kNone) in.back() = to.graph().add_constant("", Tensor({l.dtype, {}}));
}

void add_scaled(const Linear& l, GraphCopy& to, std::vector<ValueId>& in) {
  in.push_back(to.get(l.stored));
  add_scale(l, to, in);
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
    const std::optional<Linear> y = linear(m, m.producer(b["y"]), b["y"]);
    if (!y || !y->is_byte() || !y->has_one_scale()) return {};
    return is_conv(m, i) ? quantized_conv(m, i, *y, b) : moved_bytes(m, i, *y, b);
  });
}

}  // namespace

const Rewrite kQuantized{find_quantized};

}  // namespace ndtrain
