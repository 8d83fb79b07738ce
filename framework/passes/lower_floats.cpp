// Which nodes of a graph compute in 16 bits. Products do: kernels sum them in f32 and round once.
// What only moves, chooses or combines numbers follows its inputs, so that a Cast stands only where
// a product meets something that must stay f32. The last nodes, which together do little work, stay
// f32 unless they cannot round: scores and pooled features keep their digits.
#include <algorithm>
#include <set>

#include "framework/graph/op.h"
#include "framework/passes/passes.h"

namespace ndtrain {
namespace {

constexpr double kLittleWork = 0.01;  // of the products of the lowered part

const OpFacts& facts_of(const Node& n) { return find_op(n.op).facts; }

bool is_product(const Node& n) {
  return facts_of(n).kind == OpKind::kProduct && facts_of(n).rounding != Rounding::kWide;
}

class Lowering {
 public:
  Lowering(const Graph& g, DType narrow, std::span<const ValueId> until,
           std::span<const ValueId> masters)
      : g_(g),
        narrow_(narrow),
        masters_(masters.begin(), masters.end()),
        copy_(g),
        narrowed_(g.value_count(), kNone),
        born_(g.value_count(), false) {
    find_part(until);
    find_tail();
  }

  Graph run() {
    copy_.keep_inputs();
    for (size_t i = 0; i < g_.nodes().size(); ++i) {
      const Node& n = g_.nodes()[i];
      if (lowers(i)) {
        emit(n);
        continue;
      }
      for (ValueId v : n.inputs) widen(v);
      copy_.copy(n);
    }
    for (ValueId v : g_.outputs()) widen(v);
    return copy_.finish();
  }

 private:
  bool is_f32(ValueId v) const { return v != kNone && g_.type(v).dtype == DType::kF32; }
  bool is_known(ValueId v) const { return g_.value(v).data.defined(); }

  void find_part(std::span<const ValueId> until) {
    std::vector<bool> wanted(g_.value_count());
    for (ValueId v : until) wanted[index(v)] = true;
    part_.resize(g_.nodes().size());
    for (size_t i = g_.nodes().size(); i-- > 0;) {
      const Node& n = g_.nodes()[i];
      part_[i] = std::ranges::any_of(n.outputs, [&](ValueId v) { return wanted[index(v)]; });
      for (ValueId v : n.inputs) {
        if (part_[i] && v != kNone) wanted[index(v)] = true;
      }
    }
  }

  double work(size_t i) const {
    const Node& n = g_.nodes()[i];
    if (!part_[i] || !is_product(n)) return 0;
    std::vector<TensorType> in;
    for (ValueId v : n.inputs) in.push_back(v == kNone ? TensorType{DType::kNone, {}} : g_.type(v));
    const auto terms = static_cast<double>(find_op(n.op).terms(n.attrs, in));
    return terms * static_cast<double>(g_.shape(n.outputs[0]).count());
  }

  void find_tail() {
    double all = 0, behind = 0;
    for (size_t i = 0; i < g_.nodes().size(); ++i) all += work(i);
    tail_ = g_.nodes().size();
    while (tail_ > 0 && behind + work(tail_ - 1) <= kLittleWork * all) behind += work(--tail_);
  }

  bool lowers(size_t i) const {
    const Node& n = g_.nodes()[i];
    const Rounding rounding = facts_of(n).rounding;
    if (!part_[i] || rounding == Rounding::kWide || !is_f32(n.outputs[0])) return false;
    if (is_product(n)) return i < tail_;
    if (rounding == Rounding::kRounds && i >= tail_) return false;
    bool follows = false;
    for (ValueId v : n.inputs) {
      if (!is_f32(v) || is_known(v)) continue;
      if (!born_[index(v)]) return false;
      follows = true;
    }
    return follows;
  }

  ValueId cast(ValueId from, DType to, std::string name) {
    const ValueId v = copy_.graph().add1("Cast", {from}, {{"to", static_cast<int64_t>(to)}});
    copy_.graph().rename(v, std::move(name));
    return v;
  }

  // What was born narrow is there in f32 too.
  void widen(ValueId v) {
    if (v == kNone || copy_.has(v) || !born_[index(v)]) return;
    copy_.replace(v, cast(narrowed_[index(v)], DType::kF32, g_.value(v).name));
  }

  std::string narrow_name(const std::string& name) const {
    return name + "@" + std::string(name_of(narrow_));
  }

  ValueId narrowed(ValueId v) {
    ValueId& there = narrowed_[index(v)];
    if (there != kNone) return there;
    const Value& value = g_.value(v);
    const std::string name = narrow_name(value.name);
    if (!is_known(v) || masters_.contains(v)) return there = cast(copy_.get(v), narrow_, name);
    const TensorType type{narrow_, value.type.shape};
    Tensor data = Tensor::from_doubles(type, value.data.to_doubles());
    return there = value.kind == ValueKind::kParam
                       ? copy_.graph().add_param(name, std::move(data))
                       : copy_.graph().add_constant(name, std::move(data));
  }

  void emit(const Node& n) {
    std::vector<ValueId> in;
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      const ValueId v = n.inputs[k];
      const bool narrow = is_f32(v) && !(facts_of(n).wide_inputs >> k & 1);
      if (!narrow) widen(v);
      in.push_back(narrow ? narrowed(v) : copy_.get(v));
    }
    const std::vector<ValueId> out =
        copy_.graph().add(n.op, std::move(in), n.attrs, static_cast<int>(n.outputs.size()));
    for (size_t k = 0; k < out.size(); ++k) {
      const ValueId was = n.outputs[k];
      const std::string& name = g_.value(was).name;
      if (copy_.graph().type(out[k]).dtype == g_.type(was).dtype) {
        copy_.graph().rename(out[k], name);
        copy_.replace(was, out[k]);
        continue;
      }
      copy_.graph().rename(out[k], narrow_name(name));
      narrowed_[index(was)] = out[k];
      born_[index(was)] = true;
    }
  }

  const Graph& g_;
  const DType narrow_;
  const std::set<ValueId> masters_;
  GraphCopy copy_;
  std::vector<ValueId> narrowed_;  // the narrow value, where it is there
  std::vector<bool> born_;         // computed narrow
  std::vector<bool> part_;         // nodes that are before the ends
  size_t tail_ = 0;                // nodes from here on do little work
};

}  // namespace

Graph lower_floats(const Graph& g, DType narrow, std::span<const ValueId> until,
                   std::span<const ValueId> masters) {
  if (narrow != DType::kBF16 && narrow != DType::kF16) {
    throw Error("floats are lowered to bf16 or f16, not to ", name_of(narrow));
  }
  return Lowering(g, narrow, until, masters).run();
}

}  // namespace ndtrain
