#include "framework/passes/linear.h"

namespace ndtrain {

std::optional<Linear> linear(const Matcher& m, int i, ValueId stored) {
  const ValueId scale = m.input(i, 1), zero = m.input(i, 2);
  const Attrs& attrs = m.node(i).attrs;
  const auto data = [&](ValueId v) { return m.graph().value(v).data.to_doubles(); };
  if (!m.is_fixed(scale) || m.dtype(scale) != DType::kF32) return {};
  if ((zero != kNone && !m.is_fixed(zero)) || attrs.i("block_size") != 0) return {};
  return Linear{.stored = stored,
                .scale = scale,
                .zero = zero,
                .dtype = m.dtype(stored),
                .axis = attrs.i("axis"),
                .scales = data(scale),
                .zero_point = zero == kNone ? 0 : data(zero)[0]};
}

std::optional<Linear> dequantized(const Matcher& m, ValueId v) {
  const int i = m.producer(v);
  if (!m.is(i, "DequantizeLinear")) return {};
  return linear(m, i, m.input(i, 0));
}

std::optional<Linear> dequantized_bytes(const Matcher& m, ValueId v) {
  std::optional<Linear> l = dequantized(m, v);
  if (l && !(l->is_byte() && l->has_one_scale())) l.reset();
  return l;
}

std::optional<Linear> quantized_bytes(const Matcher& m, ValueId v) {
  std::optional<Linear> l = linear(m, m.producer(v), v);
  if (l && !(l->is_byte() && l->has_one_scale())) l.reset();
  return l;
}

void add_scale(const Linear& l, GraphCopy& to, std::vector<ValueId>& in) {
  in.push_back(to.get(l.scale));
  in.push_back(to.get(l.zero));
  if (l.zero == kNone) in.back() = to.graph().add_constant("", Tensor({l.dtype, {}}));
}

void add_scaled(const Linear& l, GraphCopy& to, std::vector<ValueId>& in) {
  in.push_back(to.get(l.stored));
  add_scale(l, to, in);
}

}  // namespace ndtrain
