// Reshapes and Transposes in a row as one of each, and past what computes row by row: networks that
// keep the images second inside attention, as PyTorch's MultiheadAttention, then keep them first.
#include <algorithm>
#include <map>
#include <numeric>

#include "framework/graph/op.h"
#include "framework/graph/uses.h"
#include "framework/passes/moved.h"
#include "framework/passes/passes.h"

namespace ndtrain {
namespace {

bool is_move(const Node& n) { return n.op == "Transpose" || find_op(n.op).facts.view; }

// How many elements a run moves to another place.
int64_t moved_elements(const Graph& g) {
  int64_t all = 0;
  for (const Node& n : g.nodes()) {
    if (n.op == "Transpose" || n.op == "Gather" || n.op == "Slice")
      all += g.shape(n.outputs[0]).count();
  }
  return all;
}

class MergeMoves {
 public:
  explicit MergeMoves(const Graph& g) : g_(g), uses_(uses_of(g)), copy_(g) {}

  Graph run() {
    copy_.keep_inputs();
    for (const Node& n : g_.nodes()) {
      if (!move(n) && !part(n) && !rows(n)) {
        for (const ValueId v : n.inputs) settle(v);
        copy_.copy(n);
      }
    }
    for (const ValueId v : g_.outputs()) settle(v);
    return copy_.finish();
  }

 private:
  // What `v`, which is to be a value of the copy, is made of there.
  void settle(ValueId v) {
    if (v == kNone || copy_.has(v)) return;
    const auto it = moved_.find(v);
    if (it == moved_.end()) return;
    const ValueId made = add_moved(copy_.graph(), it->second);
    if (made != it->second.source && !g_.value(v).name.empty()) {
      copy_.graph().rename(made, g_.value(v).name);
    }
    copy_.replace(v, made);
  }

  bool is_moved(ValueId v) const { return v != kNone && moved_.contains(v); }

  // As it can be moved on: what several read of another order is made once, for all of them.
  Moved to_move(ValueId v) {
    const auto it = moved_.find(v);
    if (it != moved_.end() && (it->second.in_order() || uses_.reads(v) == 1)) return it->second;
    settle(v);
    const ValueId now = copy_.get(v);
    return unmoved(now, copy_.graph().shape(now));
  }

  bool move(const Node& n) {
    if (!is_move(n) || g_.value(n.inputs[0]).data.defined()) return false;
    const Shape& shape = g_.shape(n.outputs[0]);
    if (shape.count() == 0) return false;
    const Moved x = to_move(n.inputs[0]);
    if (n.op == "Transpose") {
      moved_.emplace(n.outputs[0], transposed(x, n.attrs.ints("perm")));
      return true;
    }
    std::optional<Moved> y = reshaped(x, shape);
    if (!y) return false;
    moved_.emplace(n.outputs[0], *std::move(y));
    return true;
  }

  // One index of an axis: of a Gather, whose result has no such axis, or of a Slice.
  struct Part {
    size_t axis;
    int64_t index;
    bool keeps_axis;
  };
  std::optional<Part> part_of(const Node& n) const {
    const Shape& x = g_.shape(n.inputs[0]);
    const auto one = [&](size_t k) -> std::optional<int64_t> {
      if (k >= n.inputs.size() || n.inputs[k] == kNone) return {};
      const Value& v = g_.value(n.inputs[k]);
      if (v.kind != ValueKind::kConstant || v.type.shape.count() != 1) return {};
      return static_cast<int64_t>(v.data.to_doubles()[0]);
    };
    const auto part = [&](int64_t axis, int64_t index, bool keeps_axis) -> std::optional<Part> {
      const int d = x.axis(axis, "axis");
      if (index < 0) index += x[d];
      if (index < 0 || index >= x[d]) return {};
      return Part{static_cast<size_t>(d), index, keeps_axis};
    };
    const std::optional<int64_t> first = one(1), axis = one(3);
    if (!first) return {};
    if (n.op == "Gather" && g_.shape(n.inputs[1]).rank() == 0) {
      return part(n.attrs.i("axis"), *first, false);
    }
    const bool steps = n.inputs.size() > 4 && n.inputs[4] != kNone && one(4) != 1;
    if (n.op != "Slice" || !axis || steps) return {};
    const bool single = g_.shape(n.outputs[0])[x.axis(*axis, "axis")] == 1;
    return single ? part(*axis, *first, true) : std::nullopt;
  }

  // One index of an axis that lies outermost in the source's last: queries, say, of what is packed
  // with keys and values. It is a Split of the source then.
  bool part(const Node& n) {
    if (n.inputs.empty() || !is_moved(n.inputs[0]) || copy_.has(n.inputs[0])) return false;
    const ValueId from = n.inputs[0];
    const std::optional<Part> of = part_of(n);
    if (!of) return false;
    const Moved& x = moved_.at(from);
    const Shape source = copy_.graph().shape(x.source);
    if (x.dims[of->axis] != 1 || source.rank() == 0) return false;
    const size_t f = x.order[x.begin(of->axis)];
    const int64_t behind = std::accumulate(x.factors.begin() + static_cast<std::ptrdiff_t>(f),
                                           x.factors.end(), int64_t{1}, std::multiplies<>());
    if (behind != source[-1] || x.factors[f] < 2) return false;
    const bool alone = std::ranges::all_of(uses_.readers(from), [&](int reader) {
      if (reader == uses_.caller()) return false;
      const Node& other = g_.nodes()[static_cast<size_t>(reader)];
      const std::optional<Part> also = other.inputs[0] == from ? part_of(other) : std::nullopt;
      return also && also->axis == of->axis;
    });
    if (!alone) return false;
    std::vector<ValueId>& parts = parts_[from];
    if (parts.empty()) {
      const Attrs attrs{{"axis", int64_t{source.rank() - 1}}, {"num_outputs", x.factors[f]}};
      parts = copy_.graph().add("Split", {x.source}, attrs, static_cast<int>(x.factors[f]));
    }
    Moved y = without(x, of->axis, f, parts.at(static_cast<size_t>(of->index)));
    if (of->keeps_axis) {
      y.dims.insert(y.dims.begin() + static_cast<std::ptrdiff_t>(of->axis), 0);
    }
    moved_.emplace(n.outputs[0], std::move(y));
    return true;
  }

  bool is_one_number(ValueId v) const { return v == kNone || g_.shape(v).count() == 1; }
  bool is_a_row(ValueId v) const {
    return v == kNone || g_.shape(v).rank() == 0 || g_.shape(v).count() == g_.shape(v)[-1];
  }

  // Whether rows of `n`'s output are each computed of the same row of input `k` alone.
  bool is_by_rows(const Node& n, size_t k) const {
    const auto others = [&](bool (MergeMoves::*is)(ValueId) const) {
      for (size_t i = 0; i < n.inputs.size(); ++i) {
        if (i != k && !(this->*is)(n.inputs[i])) return false;
      }
      return n.outputs.size() == 1;
    };
    if (n.op == "MatMul") return k == 0 && g_.shape(n.inputs[1]).rank() == 2;
    if (n.op == "Gemm") {
      return k == 0 && !n.attrs.flag("transA") && (n.inputs.size() < 3 || is_a_row(n.inputs[2]));
    }
    if (n.op == "QuantizeLinear" || n.op == "DequantizeLinear") {
      return k == 0 && others(&MergeMoves::is_one_number);
    }
    if (n.op == "LayerNormalization") {
      const Shape& x = g_.shape(n.inputs[0]);
      return k == 0 && others(&MergeMoves::is_a_row) &&
             x.axis(n.attrs.i("axis"), "axis") == x.rank() - 1;
    }
    return find_op(n.op).facts.kind == OpKind::kMap && others(&MergeMoves::is_a_row) &&
           g_.shape(n.inputs[k]) == g_.shape(n.outputs[0]);
  }

  // The input of `n` by whose rows it computes; none where there is no such one.
  std::optional<size_t> rows_input(const Node& n, ValueId v) const {
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      if (n.inputs[k] == v && is_by_rows(n, k)) return k;
    }
    return {};
  }

  // Whether a move behind `v` meets others there alone.
  bool meets_moves(ValueId v) const {
    return uses_.reads(v) > 0 && std::ranges::all_of(uses_.readers(v), [&](int reader) {
             if (reader == uses_.caller()) return false;
             const Node& n = g_.nodes()[static_cast<size_t>(reader)];
             return is_move(n) || (rows_input(n, v) && meets_moves(n.outputs[0]));
           });
  }

  // Where images are not first in the rows of `x` as they are in its source, they stay first, and
  // rows go to their places behind the node.
  bool rows(const Node& n) {
    for (const ValueId v : n.inputs) {
      if (!is_moved(v) || copy_.has(v) || uses_.reads(v) != 1) continue;
      const std::optional<size_t> k = rows_input(n, v);
      std::optional<MovedRows> of = k ? moved_rows(moved_.at(v)) : std::nullopt;
      if (!of || of->back.order[0] == 0 || !meets_moves(n.outputs[0])) continue;
      if (of->back.dims.size() == 2) {
        of->sorted.dims = {of->back.order.size() - 1, of->sorted.dims.back()};
      }
      // Rows may have more dims now, or fewer: the last is the last, and one scale has no axis.
      Attrs attrs = n.attrs;
      if (attrs.has("axis")) attrs.set("axis", int64_t{n.op == "LayerNormalization" ? -1 : 0});
      std::vector<ValueId> in;
      for (size_t i = 0; i < n.inputs.size(); ++i) {
        if (i != *k) settle(n.inputs[i]);
        in.push_back(i == *k ? add_moved(copy_.graph(), of->sorted) : copy_.get(n.inputs[i]));
      }
      of->back.source = copy_.graph().add1(n.op, std::move(in), std::move(attrs));
      of->back.factors.back() = g_.shape(n.outputs[0])[-1];
      moved_.emplace(n.outputs[0], std::move(of->back));
      return true;
    }
    return false;
  }

  const Graph& g_;
  Uses<ValueId> uses_;
  GraphCopy copy_;
  std::map<ValueId, Moved> moved_;
  std::map<ValueId, std::vector<ValueId>> parts_;
};

}  // namespace

Graph merge_moves(const Graph& g) {
  Graph merged = remove_dead_nodes(MergeMoves(g).run());
  if (moved_elements(merged) < moved_elements(g)) return merged;
  return g;
}

}  // namespace ndtrain
