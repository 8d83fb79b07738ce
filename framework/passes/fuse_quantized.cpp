// Quantised graphs as they are written down (QDQ: DequantizeLinear, an f32 op, QuantizeLinear) as
// what is computed: convolutions of bytes as FusedQLinearConv, and ops that only move or choose
// numbers on the bytes themselves. What is dequantised and not fused stays f32.
#include <algorithm>
#include <cmath>
#include <optional>

#include "framework/graph/op.h"
#include "framework/graph/uses.h"
#include "framework/passes/passes.h"

namespace ndtrain {
namespace {

// Gives the same bytes whether before or after dequantising.
bool is_move(const Node& n) {
  return find_op(n.op).facts.kind == OpKind::kMove && n.outputs.size() == 1;
}

size_t data_inputs(const Node& n) { return data_inputs(find_op(n.op), n.inputs.size()); }

class QuantizedFuser {
 public:
  explicit QuantizedFuser(const Graph& g)
      : g_(g), uses_(g), copy_(g), skip_(g.nodes().size(), false) {}

  Graph run() {
    std::vector<int> fused(g_.nodes().size(), -1);  // by QuantizeLinear: what it ends
    for (size_t i = 0; i < g_.nodes().size(); ++i) {
      const Node& q = g_.nodes()[i];
      if (q.op != "QuantizeLinear" || !is_one_scale(q)) continue;
      const int before = uses_.producer(q.inputs[0]);
      if (before < 0 || !uses_.only_once(q.inputs[0])) continue;
      if (!is_fusable(node(before), q)) continue;
      fused[i] = before;
      skip_[static_cast<size_t>(before)] = true;
    }
    copy_.keep_inputs();
    for (size_t i = 0; i < g_.nodes().size(); ++i) {
      if (fused[i] >= 0) {
        emit(node(fused[i]), g_.nodes()[i]);
      } else if (!skip_[i]) {
        copy_.copy(g_.nodes()[i]);
      }
    }
    return remove_dead_nodes(copy_.finish());
  }

 private:
  const Node& node(int i) const { return g_.nodes()[static_cast<size_t>(i)]; }
  const Tensor& data(ValueId v) const { return g_.value(v).data; }
  bool has(const Node& n, size_t i) const { return i < n.inputs.size() && n.inputs[i] != kNone; }
  bool is_byte(ValueId v) const {
    return g_.type(v).dtype == DType::kI8 || g_.type(v).dtype == DType::kU8;
  }

  // Scale and zero point of a Q or DQ are constants; the scale of f32.
  bool is_known(const Node& n) const {
    return data(n.inputs[1]).defined() && g_.type(n.inputs[1]).dtype == DType::kF32 &&
           (!has(n, 2) || data(n.inputs[2]).defined()) && n.attrs.i("block_size") == 0;
  }
  bool is_one_scale(const Node& n) const {
    return is_known(n) && g_.shape(n.inputs[1]).count() == 1 &&
           data(n.inputs[1]).to_doubles()[0] > 0;
  }

  // The DequantizeLinear that gives `v`, or null.
  const Node* dequantized(ValueId v) const {
    const int i = uses_.producer(v);
    return i >= 0 && node(i).op == "DequantizeLinear" && is_known(node(i)) ? &node(i) : nullptr;
  }
  // The same for bytes of one scale.
  const Node* dequantized_bytes(ValueId v) const {
    const Node* dq = dequantized(v);
    return dq && is_one_scale(*dq) && is_byte(dq->inputs[0]) ? dq : nullptr;
  }

  double zero_of(const Node& n) const { return has(n, 2) ? data(n.inputs[2]).to_doubles()[0] : 0; }
  bool same_numbers(const Node& dq, const Node& q) const {
    return data(dq.inputs[1]).to_doubles() == data(q.inputs[1]).to_doubles() &&
           zero_of(dq) == zero_of(q) && g_.type(dq.inputs[0]).dtype == g_.type(q.outputs[0]).dtype;
  }

  bool is_fusable(const Node& n, const Node& q) const {
    if (!is_byte(q.outputs[0])) return false;
    if (n.op == "Conv" || n.op == "FusedConv") return is_fusable_conv(n);
    if (!is_move(n)) return false;
    for (size_t i = 0; i < data_inputs(n); ++i) {
      const Node* dq = dequantized_bytes(n.inputs[i]);
      if (!dq || !same_numbers(*dq, q)) return false;
    }
    return true;
  }

  bool is_fusable_conv(const Node& n) const {
    const Node *x = dequantized_bytes(n.inputs[0]), *w = dequantized(n.inputs[1]);
    if (!x || !w || !is_byte(w->inputs[0]) || !data(w->inputs[0]).defined()) return false;
    const Shape& w_scale = g_.shape(w->inputs[1]);
    if (w_scale.count() != 1 && w->attrs.i("axis") != 0) return false;
    if (has(n, 2) && !bias(n, *x, *w)) return false;
    return !has(n, 3) || dequantized_bytes(n.inputs[3]);
  }

  // The bias in units of x_scale * w_scale, as i32: as it was quantised, or quantised here.
  std::optional<Tensor> bias(const Node& n, const Node& x, const Node& w) const {
    const Node* dq = dequantized(n.inputs[2]);
    const Tensor& stored = dq ? data(dq->inputs[0]) : data(n.inputs[2]);
    if (!stored.defined()) return std::nullopt;
    std::vector<double> values = stored.to_doubles();
    const double x_scale = data(x.inputs[1]).to_doubles()[0];
    const std::vector<double> w_scale = data(w.inputs[1]).to_doubles();
    const std::vector<double> scale = dq ? data(dq->inputs[1]).to_doubles() : std::vector{1.0};
    for (size_t m = 0; m < values.size(); ++m) {
      const double zero = dq && has(*dq, 2) ? data(dq->inputs[2]).to_doubles()[0] : 0;
      const double unit = x_scale * w_scale[w_scale.size() == 1 ? 0 : m];
      const double real = (values[m] - zero) * scale[scale.size() == 1 ? 0 : m];
      values[m] = std::nearbyint(real / unit);
      if (!(std::abs(values[m]) < 0x1p31)) return std::nullopt;
    }
    return Tensor::from_doubles({DType::kI32, stored.shape()}, values);
  }

  // A zero point that is there: the op demands one.
  ValueId zero_point(const Node& dq) {
    if (has(dq, 2)) return copy_.get(dq.inputs[2]);
    return copy_.graph().add_constant("", Tensor({g_.type(dq.inputs[0]).dtype, {}}));
  }
  ValueId scale(const Node& dq) { return copy_.get(dq.inputs[1]); }

  void emit(const Node& n, const Node& q) {
    Graph& to = copy_.graph();
    std::vector<ValueId> in;
    ValueId y;
    if (n.op == "Conv" || n.op == "FusedConv") {
      const Node &x = *dequantized(n.inputs[0]), &w = *dequantized(n.inputs[1]);
      const ValueId y_zero =
          has(q, 2) ? copy_.get(q.inputs[2]) : to.add_constant("", Tensor({DType::kU8, {}}));
      in = {copy_.get(x.inputs[0]), scale(x), zero_point(x), copy_.get(w.inputs[0]), scale(w),
            zero_point(w),          scale(q), y_zero};
      in.push_back(has(n, 2) ? to.add_constant("", *bias(n, x, w)) : kNone);
      if (has(n, 3)) {
        const Node& r = *dequantized(n.inputs[3]);
        in.insert(in.end(), {copy_.get(r.inputs[0]), scale(r), zero_point(r)});
      }
      y = to.add1("FusedQLinearConv", std::move(in), n.attrs);
    } else {
      for (size_t i = 0; i < n.inputs.size(); ++i) {
        const ValueId v = n.inputs[i];
        in.push_back(copy_.get(i < data_inputs(n) ? dequantized(v)->inputs[0] : v));
      }
      y = to.add1(n.op, std::move(in), n.attrs);
    }
    to.rename(y, g_.value(q.outputs[0]).name);
    copy_.replace(q.outputs[0], y);
  }

  const Graph& g_;
  Uses uses_;
  GraphCopy copy_;
  std::vector<bool> skip_;  // nodes that became part of another
};

}  // namespace

Graph fuse_quantized(const Graph& g) { return QuantizedFuser(g).run(); }

}  // namespace ndtrain
