// Quantised graphs as they are written down (QDQ: DequantizeLinear, an f32 op, QuantizeLinear) as
// what is computed: convolutions of bytes as FusedQLinearConv, and ops that only move or choose
// numbers on the bytes themselves. What is dequantised and not fused stays f32.
#include <algorithm>
#include <cmath>

#include "framework/passes/rewrites.h"

namespace ndtrain {
namespace {

// Gives the same bytes whether before or after dequantising.
bool is_move(const Node& n) {
  return find_op(n.op).facts.kind == OpKind::kMove && n.outputs.size() == 1;
}

const Tensor& data(const Matcher& m, ValueId v) { return m.graph().value(v).data; }
bool is_byte(const Matcher& m, ValueId v) {
  return m.dtype(v) == DType::kI8 || m.dtype(v) == DType::kU8;
}

// Scale and zero point of a Q or DQ are constants; the scale of f32.
bool is_known(const Matcher& m, int i) {
  const ValueId scale = m.input(i, 1), zero = m.input(i, 2);
  return m.is_fixed(scale) && m.dtype(scale) == DType::kF32 &&
         (zero == kNone || m.is_fixed(zero)) && m.node(i).attrs.i("block_size") == 0;
}

bool is_one_scale(const Matcher& m, int i) {
  return is_known(m, i) && m.number(m.input(i, 1)).value_or(0) > 0;
}

// The DequantizeLinear that gives `v`; -1: none.
int dequantized(const Matcher& m, ValueId v) {
  const int i = m.producer(v);
  return m.is(i, "DequantizeLinear") && is_known(m, i) ? i : -1;
}

// The same for bytes of one scale.
int dequantized_bytes(const Matcher& m, ValueId v) {
  const int i = dequantized(m, v);
  return i >= 0 && is_one_scale(m, i) && is_byte(m, m.input(i, 0)) ? i : -1;
}

double zero_of(const Matcher& m, int i) {
  return m.input(i, 2) == kNone ? 0 : data(m, m.input(i, 2)).to_doubles()[0];
}

bool same_numbers(const Matcher& m, int dq, int q) {
  return data(m, m.input(dq, 1)).to_doubles() == data(m, m.input(q, 1)).to_doubles() &&
         zero_of(m, dq) == zero_of(m, q) && m.dtype(m.input(dq, 0)) == m.dtype(m.result(q));
}

// The bias of a convolution in units of x_scale * w_scale, as i32: as it was quantised, or
// quantised here.
std::optional<Tensor> bias_of(const Matcher& m, int conv) {
  const int x = dequantized(m, m.input(conv, 0)), w = dequantized(m, m.input(conv, 1)),
            dq = dequantized(m, m.input(conv, 2));
  const Tensor& stored = data(m, dq >= 0 ? m.input(dq, 0) : m.input(conv, 2));
  if (!stored.defined()) return {};
  std::vector<double> values = stored.to_doubles();
  const double x_scale = *m.number(m.input(x, 1)), zero = dq >= 0 ? zero_of(m, dq) : 0;
  const std::vector<double> w_scale = data(m, m.input(w, 1)).to_doubles();
  const std::vector<double> scale =
      dq >= 0 ? data(m, m.input(dq, 1)).to_doubles() : std::vector{1.0};
  for (size_t c = 0; c < values.size(); ++c) {
    const double unit = x_scale * w_scale[w_scale.size() == 1 ? 0 : c];
    const double real = (values[c] - zero) * scale[scale.size() == 1 ? 0 : c];
    values[c] = std::nearbyint(real / unit);
    if (!(std::abs(values[c]) < 0x1p31)) return {};
  }
  return Tensor::from_doubles({DType::kI32, stored.shape()}, values);
}

bool is_quantized_conv(const Matcher& m, int i) {
  const int x = dequantized_bytes(m, m.input(i, 0)), w = dequantized(m, m.input(i, 1));
  if (x < 0 || w < 0 || !is_byte(m, m.input(w, 0)) || !m.is_fixed(m.input(w, 0))) return false;
  if (m.shape(m.input(w, 1)).count() != 1 && m.node(w).attrs.i("axis") != 0) return false;
  if (m.input(i, 2) != kNone && !bias_of(m, i)) return false;
  return m.input(i, 3) == kNone || dequantized_bytes(m, m.input(i, 3)) >= 0;
}

bool is_fusable(const Matcher& m, int i, int q) {
  if (!is_byte(m, m.result(q))) return false;
  if (is_conv(m, i)) return is_quantized_conv(m, i);
  const Node& n = m.node(i);
  const std::span<const ValueId> in(n.inputs);
  return is_move(n) &&
         std::ranges::all_of(in.first(data_inputs(find_op(n.op), in.size())), [&](ValueId v) {
           const int dq = dequantized_bytes(m, v);
           return dq >= 0 && same_numbers(m, dq, q);
         });
}

// Bytes, their scale, and a zero point that is there: the op demands one.
void add_scaled(const Matcher& m, ValueId v, GraphCopy& to, std::vector<ValueId>& in) {
  const int dq = dequantized(m, v);
  for (size_t k = 0; k < 3; ++k) in.push_back(to.get(m.input(dq, k)));
  if (in.back() != kNone) return;
  in.back() = to.graph().add_constant("", Tensor({m.dtype(m.input(dq, 0)), {}}));
}

ValueId quantized_conv(const Matcher& m, int conv, int q, GraphCopy& to) {
  std::vector<ValueId> in;
  add_scaled(m, m.input(conv, 0), to, in);
  add_scaled(m, m.input(conv, 1), to, in);
  in.push_back(to.get(m.input(q, 1)));
  in.push_back(to.get(m.input(q, 2)));
  if (in.back() == kNone) in.back() = to.graph().add_constant("", Tensor({DType::kU8, {}}));
  in.push_back(kNone);
  if (m.input(conv, 2) != kNone) in.back() = to.graph().add_constant("", *bias_of(m, conv));
  if (m.input(conv, 3) != kNone) add_scaled(m, m.input(conv, 3), to, in);
  return to.graph().add1("FusedQLinearConv", std::move(in), m.node(conv).attrs);
}

ValueId moved_bytes(const Matcher& m, int i, GraphCopy& to) {
  const Node& n = m.node(i);
  std::vector<ValueId> in = n.inputs;
  const size_t moved = data_inputs(find_op(n.op), in.size());
  for (size_t k = 0; k < in.size(); ++k) {
    in[k] = to.get(k < moved ? m.input(dequantized(m, in[k]), 0) : in[k]);
  }
  return to.graph().add1(n.op, std::move(in), n.attrs);
}

std::vector<Match> find_quantized(const Matcher& m) {
  std::vector<Match> all;
  for (int q = 0; q < m.nodes(); ++q) {
    if (!m.is(q, "QuantizeLinear") || !is_one_scale(m, q)) continue;
    const int i = m.maker(m.input(q, 0));
    if (i < 0 || !is_fusable(m, i, q)) continue;
    all.push_back({{i, q}, [=, &m](GraphCopy& to) {
                     return is_conv(m, i) ? quantized_conv(m, i, q, to) : moved_bytes(m, i, to);
                   }});
  }
  return all;
}

}  // namespace

const Rewrite kQuantized{find_quantized};

}  // namespace ndtrain
