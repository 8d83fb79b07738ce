// Quantised graphs as they are written down (QDQ: DequantizeLinear, an f32 op, QuantizeLinear) as
// what is computed: convolutions of bytes as FusedQLinearConv, and ops that only move or choose
// numbers on the bytes themselves. What is dequantised and not fused stays f32. And the way back.
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

// The inputs of a FusedQLinearConv.
constexpr size_t kX = 0, kW = 3, kY = 6, kBias = 8, kResidual = 9;

// Input `k` of node `i`, which is bytes, as numbers: (bytes - zero) * scale, both by channel.
Tensor numbers_of(const Matcher& m, int i, size_t k) {
  const auto data = [&](size_t of) { return m.graph().value(m.input(i, of)).data; };
  std::vector<double> values = data(k).to_doubles();
  const std::vector<double> scales = data(k + 1).to_doubles(), zeros = data(k + 2).to_doubles();
  const Shape& shape = m.shape(m.input(i, k));
  const auto per_channel = static_cast<size_t>(shape.count() / std::max<int64_t>(1, shape[0]));
  for (size_t v = 0; v < values.size(); ++v) {
    const size_t c = v / per_channel;
    values[v] = (values[v] - zeros[zeros.size() == 1 ? 0 : c]) * scales[scales.size() == 1 ? 0 : c];
  }
  return Tensor::from_doubles({DType::kF32, shape}, values);
}

Tensor bias_as_numbers(const Matcher& m, int i) {
  const auto data = [&](size_t of) { return m.graph().value(m.input(i, of)).data; };
  std::vector<double> values = data(kBias).to_doubles();
  const std::vector<double> w = data(kW + 1).to_doubles();
  const double x = data(kX + 1).to_doubles()[0];
  for (size_t c = 0; c < values.size(); ++c) values[c] *= x * w[w.size() == 1 ? 0 : c];
  return Tensor::from_doubles({DType::kF32, m.shape(m.input(i, kBias))}, values);
}

std::vector<Match> find_convolutions_of_bytes(const Matcher& m) {
  std::vector<Match> all;
  for (int i = 0; i < m.nodes(); ++i) {
    const auto fixed = [&](size_t k) { return m.is_fixed(m.input(i, k)); };
    const bool biased = m.is(i, "FusedQLinearConv") && m.input(i, kBias) != kNone;
    if (!m.is(i, "FusedQLinearConv") || !fixed(kX + 1) || !fixed(kW) || !fixed(kW + 1) ||
        !fixed(kW + 2) || (biased && !fixed(kBias))) {
      continue;
    }
    all.push_back(
        {{i}, [&m, i, biased](GraphCopy& to) {
           Graph& g = to.graph();
           const auto get = [&](size_t k) { return to.get(m.input(i, k)); };
           const auto as_numbers = [&](size_t k) {
             return g.add1("DequantizeLinear", {get(k), get(k + 1), get(k + 2)});
           };
           std::vector<ValueId> in = {as_numbers(kX), g.add_constant("", numbers_of(m, i, kW))};
           const bool adds = m.input(i, kResidual) != kNone;
           if (biased) in.push_back(g.add_constant("", bias_as_numbers(m, i)));
           if (adds) in.resize(3, kNone);
           if (adds) in.push_back(as_numbers(kResidual));
           const ValueId y = g.add1("FusedConv", std::move(in), m.node(i).attrs);
           return g.add1("QuantizeLinear", {y, get(kY), get(kY + 1)});
         }});
  }
  return all;
}

}  // namespace

const Rewrite kQuantized{find_quantized};
const Rewrite kConvolutionsAsNumbers{find_convolutions_of_bytes};

}  // namespace ndtrain
