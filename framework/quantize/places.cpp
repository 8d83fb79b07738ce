#include "framework/quantize/places.h"

#include <algorithm>
#include <optional>

#include "framework/graph/op.h"

namespace ndtrain {
namespace {

const OpDef& op_of(const ModelNode& n) { return find_op(n.op); }

// How many inputs are data that the node only moves.
size_t moved_inputs(const ModelNode& n) {
  if (n.outputs.size() != 1 || op_of(n).facts.kind != OpKind::kMove) return 0;
  return data_inputs(op_of(n), n.inputs.size());
}

class Placing {
 public:
  Placing(const Model& model, const std::vector<std::string>& until,
          const std::set<std::string>& keep)
      : m_(model), keep_(keep), bound_(bind(model, 1)) {
    for (size_t i = 0; i < m_.nodes.size(); ++i) {
      for (const std::string& name : m_.nodes[i].outputs) producer_[name] = i;
      for (const std::string& name : m_.nodes[i].inputs) readers_[name].push_back(i);
    }
    std::set<std::string> ends(m_.outputs.begin(), m_.outputs.end());
    ends.insert(until.begin(), until.end());
    for (const std::string& name : ends) readers_[name].push_back(m_.nodes.size());
    find_part(until);
  }

  QuantizedPlaces run() {
    for (size_t i = 0; i < m_.nodes.size(); ++i) {
      if (is_quantisable(i)) convolution(i);
    }
    for (auto& [name, group] : places_.group_of) group = root(name);
    std::set<std::string> negative;
    for (const auto& [name, group] : places_.group_of) {
      if (!never_negative(name)) negative.insert(group);
    }
    for (const auto& [name, group] : places_.group_of) {
      if (!negative.contains(group)) places_.never_negative.insert(group);
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

  // The node that alone reads `name`.
  std::optional<size_t> sole_reader(const std::string& name) const {
    const auto it = readers_.find(name);
    if (it == readers_.end() || it->second.size() != 1) return std::nullopt;
    if (it->second[0] == m_.nodes.size()) return std::nullopt;
    return it->second[0];
  }

  bool is_activation(const ModelNode& n) const {
    return op_of(n).facts.clamp &&
           std::all_of(n.inputs.begin() + 1, n.inputs.end(), [&](const std::string& name) {
             return name.empty() || constant(name).defined();
           });
  }

  // What `name` always is, also where a node of its own says so; undefined when it is computed.
  Tensor constant(const std::string& name) const {
    const ValueId v = bound_.find(name);
    return v == kNone ? Tensor() : bound_.value(v).data;
  }

  void convolution(size_t i) {
    places_.convolutions.push_back(i);
    hold(m_.nodes[i].inputs[0]);
    std::string end = m_.nodes[i].outputs[0];
    std::optional<size_t> next = sole_reader(end);
    if (next && m_.nodes[*next].op == "Add") {
      if (const std::string other = residual(m_.nodes[*next], end); !other.empty()) {
        hold(other);
        end = m_.nodes[*next].outputs[0];
        next = sole_reader(end);
      }
    }
    if (next && is_activation(m_.nodes[*next]) && m_.nodes[*next].inputs[0] == end) {
      end = m_.nodes[*next].outputs[0];
    }
    hold(end);
  }

  // The other operand of `add`, if it is computed before `name` and has its shape; else "".
  std::string residual(const ModelNode& add, const std::string& name) const {
    const std::string& other = add.inputs[0] == name ? add.inputs[1] : add.inputs[0];
    const auto from = producer_.find(other);
    if (other == name || from == producer_.end() || from->second > producer_.at(name)) return "";
    const ValueId a = bound_.find(other), b = bound_.find(name);
    return a != kNone && bound_.type(a) == bound_.type(b) ? other : "";
  }

  // `name` is held in bytes, and so is what it was only moved from.
  void hold(const std::string& name) {
    if (!places_.group_of.emplace(name, name).second) return;
    const auto from = producer_.find(name);
    if (from == producer_.end()) return;
    const ModelNode& n = m_.nodes[from->second];
    const size_t moved = moved_inputs(n);
    for (size_t k = 0; k < moved; ++k) {
      if (m_.initialisers.contains(n.inputs[k])) return;
    }
    for (size_t k = 0; k < moved; ++k) {
      hold(n.inputs[k]);
      places_.group_of[root(n.inputs[k])] = root(name);
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
    const auto from = producer_.find(name);
    if (from == producer_.end()) return false;
    const ModelNode& n = m_.nodes[from->second];
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
  std::map<std::string, size_t> producer_;
  std::map<std::string, std::vector<size_t>> readers_;  // nodes; one past the last: the caller
  std::vector<bool> part_;
  QuantizedPlaces places_;
};

}  // namespace

QuantizedPlaces quantized_places(const Model& model, const std::vector<std::string>& until,
                                 const std::set<std::string>& keep) {
  return Placing(model, until, keep).run();
}

}  // namespace ndtrain
