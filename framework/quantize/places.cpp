#include "framework/quantize/places.h"

#include <algorithm>

#include "framework/graph/elementwise_steps.h"
#include "framework/graph/op.h"
#include "framework/graph/uses.h"

namespace ndtrain {
namespace {

const OpDef& op_of(const ModelNode& n) { return find_op(n.op); }

// How many inputs are data that the node only moves.
size_t moved_inputs(const ModelNode& n) {
  if (n.outputs.size() != 1 || op_of(n).facts.kind != OpKind::kMove) return 0;
  return data_inputs(op_of(n), n.inputs.size());
}

std::set<std::string> ends_of(const Model& model, const std::vector<std::string>& until) {
  std::set<std::string> all(model.outputs.begin(), model.outputs.end());
  all.insert(until.begin(), until.end());
  return all;
}

class Placing {
 public:
  Placing(const Model& model, const std::vector<std::string>& until,
          const std::set<std::string>& keep)
      : m_(model),
        keep_(keep),
        bound_(bind(model, 1)),
        uses_(uses_of(model, ends_of(model, until))) {
    find_part(until);
  }

  QuantizedPlaces run() {
    for (size_t i = 0; i < m_.nodes.size(); ++i) {
      if (is_quantisable(i)) convolution(i);
    }
    std::set<std::string> padded;  // convolutions pad with zeros
    for (const auto& [name, group] : places_.group_of) padded.insert(name);
    for (size_t i = 0; i < m_.nodes.size(); ++i) {
      if (is_product(i)) product(i);
    }
    for (size_t i = m_.nodes.size(); i-- > 0;) {
      if (part_[i]) map_of_bytes(m_.nodes[i]);
    }
    for (auto& [name, group] : places_.group_of) group = root(name);
    std::set<std::string> negative, centred;
    for (const auto& [name, group] : places_.group_of) {
      if (!never_negative(name)) negative.insert(group);
      if (padded.contains(name)) centred.insert(group);
    }
    for (const auto& [name, group] : places_.group_of) {
      if (!centred.contains(group)) {
        places_.off_centre.insert(group);
      } else if (!negative.contains(group)) {
        places_.never_negative.insert(group);
      }
    }
    return places_;
  }

 private:
  void find_part(const std::vector<std::string>& until) {
    std::set<std::string> wanted(until.begin(), until.end());
    part_.resize(m_.nodes.size());
    for (size_t i = m_.nodes.size(); i-- > 0;) {
      const ModelNode& n = m_.nodes[i];
      part_[i] = std::ranges::any_of(n.outputs, [&](const auto& o) { return wanted.contains(o); });
      if (part_[i]) wanted.insert(n.inputs.begin(), n.inputs.end());
    }
  }

  bool is_weight(const std::string& name) const {
    const auto it = m_.initialisers.find(name);
    return it != m_.initialisers.end() && it->second.type().dtype == DType::kF32;
  }
  bool is_quantisable(size_t i) const {
    const ModelNode& n = m_.nodes[i];
    return part_[i] && n.op == "Conv" && !keep_.contains(n.outputs[0]) &&
           !m_.initialisers.contains(n.inputs[0]) && is_weight(n.inputs[1]) &&
           (n.inputs.size() < 3 || n.inputs[2].empty() || is_weight(n.inputs[2])) &&
           bound_.type(bound_.find(n.outputs[0])).dtype == DType::kF32;
  }

  // MatMul, or a Gemm that scales nothing, of rows by a matrix.
  bool is_product(size_t i) const {
    const ModelNode& n = m_.nodes[i];
    if (!part_[i] || (n.op != "MatMul" && n.op != "Gemm") || keep_.contains(n.outputs[0]))
      return false;
    if (m_.initialisers.contains(n.inputs[0]) || !is_weight(n.inputs[1])) return false;
    const auto is = [&](const char* name, double v) {
      return !n.attrs.has(name) || n.attrs.f(name) == v;
    };
    const bool transposed = n.attrs.has("transA") && n.attrs.flag("transA");
    if (transposed || !is("alpha", 1) || !is("beta", 1)) return false;
    const Shape &x = bound_.shape(bound_.find(n.inputs[0])),
                &y = bound_.shape(bound_.find(n.outputs[0]));
    return m_.initialisers.at(n.inputs[1]).shape().rank() == 2 && x.rank() >= 2 &&
           y.count() * x[-1] >= kLeastMultiplications;
  }

  const ModelNode* node(int i) const { return i < 0 ? nullptr : &m_.nodes[static_cast<size_t>(i)]; }
  const ModelNode* producer(const std::string& name) const { return node(uses_.producer(name)); }
  const ModelNode* sole_reader(const std::string& name) const {
    return node(uses_.sole_reader(name));
  }

  bool is_activation(const ModelNode& n) const { return op_of(n).facts.clamp && is_of_one(n); }

  // Whether all but its first input always are the same.
  bool is_of_one(const ModelNode& n) const {
    return std::all_of(n.inputs.begin() + 1, n.inputs.end(), [&](const std::string& name) {
      return name.empty() || constant(name).defined();
    });
  }

  // What `name` always is, also where a node of its own says so; undefined when it is computed.
  Tensor constant(const std::string& name) const {
    const ValueId v = bound_.find(name);
    return v == kNone ? Tensor() : bound_.value(v).data;
  }

  Shape shape(const std::string& name) const {
    const ValueId v = bound_.find(name);
    return v == kNone ? Shape{} : bound_.shape(v);
  }

  void convolution(size_t i) {
    places_.convolutions.push_back(i);
    hold(m_.nodes[i].inputs[0]);
    std::string end = m_.nodes[i].outputs[0];
    const ModelNode* next = sole_reader(end);
    if (next && next->op == "Add") {
      if (const std::string other = residual(*next, end); !other.empty()) {
        hold(other);
        end = next->outputs[0];
        next = sole_reader(end);
      }
    }
    if (next && is_activation(*next) && next->inputs[0] == end) end = next->outputs[0];
    hold(end);
  }

  void product(size_t i) {
    places_.products.push_back(i);
    hold(m_.nodes[i].inputs[0]);
  }

  // What is averaged, scaled by factors or normalised for others that compute on bytes, and comes
  // in bytes, is held in them too. Called from the last node to the first.
  void map_of_bytes(const ModelNode& n) {
    if (n.outputs.size() != 1 || !places_.group_of.contains(n.outputs[0])) return;
    for (const std::string& name : normalised_maps(n)) hold(name);
    if (is_average(n) && comes_in_bytes(n.inputs[0])) hold(n.inputs[0]);
    const int maps = scaled_maps(n);
    if (maps < 0 || !comes_in_bytes(n.inputs[0]) || !comes_in_bytes(n.inputs[1])) return;
    for (const std::string& name : n.inputs) hold(name);
  }

  // What a BatchNormalization makes `n`'s output of, alone or before a Relu: maps that come in
  // bytes, each with a scale of its own also where they are joined. Empty: it is of others.
  std::vector<std::string> normalised_maps(const ModelNode& n) const {
    const ModelNode* bn = &n;
    if (n.op == "Relu" && uses_.reads(n.inputs[0]) == 1) bn = producer(n.inputs[0]);
    if (!bn || bn->op != "BatchNormalization" || bn->outputs.size() != 1) return {};
    std::vector<std::string> parts = joined_parts(bn->inputs[0]);
    const bool bytes =
        std::ranges::all_of(parts, [&](const std::string& name) { return comes_in_bytes(name); });
    return bytes ? std::move(parts) : std::vector<std::string>();
  }

  // What `name` is, where Concats join it by channels, in parts.
  std::vector<std::string> joined_parts(const std::string& name) const {
    const ModelNode* n = producer(name);
    const Shape joined = shape(name);
    if (!n || n->op != "Concat" || joined.rank() < 2 ||
        joined.axis(n->attrs.i("axis"), "axis") != 1) {
      return {name};
    }
    std::vector<std::string> all;
    for (const std::string& part : n->inputs) {
      std::ranges::move(joined_parts(part), std::back_inserter(all));
    }
    return all;
  }

  // Of images, over all of their planes or windows of them.
  bool is_average(const ModelNode& n) const {
    const Shape x = shape(n.inputs[0]), y = shape(n.outputs[0]);
    if (x.rank() != 4 || y.rank() != 4) return false;
    if (n.op == "AveragePool" || n.op == "GlobalAveragePool") return true;
    return n.op == "ReduceMean" && y == x.with(2, 1).with(3, 1);
  }

  // The operand of a Mul that has images, where the other has a factor for each of their planes;
  // -1: it is no such Mul.
  int scaled_maps(const ModelNode& n) const {
    if (n.op != "Mul") return -1;
    const Shape y = shape(n.outputs[0]);
    if (y.rank() != 4) return -1;
    for (const int k : {0, 1}) {
      if (shape(n.inputs[k]) == y && shape(n.inputs[1 - k]) == y.with(2, 1).with(3, 1) &&
          y[2] * y[3] > 1) {
        return k;
      }
    }
    return -1;
  }

  // Whether `name` is held in bytes, or made of bytes by what has a kernel for them.
  bool comes_in_bytes(const std::string& name) const {
    if (places_.group_of.contains(name)) return true;
    const ModelNode* n = producer(name);
    if (!n || n->outputs.size() != 1) return false;
    const bool function = elementwise_operands(n->op) == 1 && is_of_one(*n);
    if (function || is_average(*n) || n->op == "MaxPool") return comes_in_bytes(n->inputs[0]);
    if (const std::string x = swish_operand(*n); !x.empty()) return comes_in_bytes(x);
    return scaled_maps(*n) >= 0 && comes_in_bytes(n->inputs[0]) && comes_in_bytes(n->inputs[1]);
  }

  // x of x * sigmoid(x); "": it is something else.
  std::string swish_operand(const ModelNode& n) const {
    for (const int k : {0, 1}) {
      if (n.op != "Mul") break;
      const ModelNode* gate = producer(n.inputs[1 - k]);
      if (gate && gate->op == "Sigmoid" && gate->inputs[0] == n.inputs[k]) return n.inputs[k];
    }
    return "";
  }

  // The other operand of `add`, if it is computed before `name` and has its shape; else "".
  std::string residual(const ModelNode& add, const std::string& name) const {
    const std::string& other = add.inputs[0] == name ? add.inputs[1] : add.inputs[0];
    const int from = uses_.producer(other);
    if (from < 0 || from >= uses_.producer(name)) return "";
    const ValueId a = bound_.find(other), b = bound_.find(name);
    return a != kNone && bound_.type(a) == bound_.type(b) ? other : "";
  }

  // `name` is held in bytes, and so is what it was only moved from.
  void hold(const std::string& name) {
    if (!places_.group_of.emplace(name, name).second) return;
    const ModelNode* n = producer(name);
    if (!n) return;
    const std::span<const std::string> moved(n->inputs.data(), moved_inputs(*n));
    for (const std::string& from : moved) {
      if (m_.initialisers.contains(from)) return;
    }
    for (const std::string& from : moved) {
      hold(from);
      places_.group_of[root(from)] = root(name);
    }
  }

  std::string root(std::string name) const {
    for (;;) {
      const std::string& up = places_.group_of.at(name);
      if (up == name) return name;
      name = up;
    }
  }

  bool never_negative(const std::string& name) const {
    const ModelNode* made = producer(name);
    if (!made) return false;
    const ModelNode& n = *made;
    if (op_of(n).facts.sign == Sign::kNeverNegative) return true;
    if (n.op == "Clip") {
      const Tensor low = n.inputs.size() > 1 ? constant(n.inputs[1]) : Tensor();
      return low.defined() && low.to_doubles().at(0) >= 0;
    }
    if (op_of(n).facts.sign != Sign::kAsInputs) return false;
    const bool moves = op_of(n).facts.kind == OpKind::kMove;
    const size_t operands = moves ? moved_inputs(n) : n.inputs.size();
    for (size_t k = 0; k < operands; ++k) {
      const bool shapes = op_of(n).shape_inputs >> k & 1;
      if (!shapes && !never_negative(n.inputs[k])) return false;
    }
    return operands > 0;
  }

  const Model& m_;
  const std::set<std::string>& keep_;
  Graph bound_;
  Uses<std::string> uses_;
  std::vector<bool> part_;
  QuantizedPlaces places_;
};

}  // namespace

QuantizedPlaces quantized_places(const Model& model, const std::vector<std::string>& until,
                                 const std::set<std::string>& keep) {
  return Placing(model, until, keep).run();
}

}  // namespace ndtrain
