#include <algorithm>
#include <set>

#include "framework/graph/constants.h"
#include "framework/graph/growing_types.h"
#include "framework/graph/model.h"
#include "framework/graph/op.h"

namespace ndtrain {
namespace {

class Binder {
 public:
  Binder(const Model& model, int64_t batch, const std::map<std::string, Tensor>& known)
      : model_(model), batch_(batch), known_(known) {}

  Graph run() {
    add_rest();
    for (const std::string& name : model_.outputs) g_.mark_output(get(name));
    return remove_dead_nodes(g_);
  }

  // What the model has more than when this was called last.
  void add_rest() {
    while (inputs_ < model_.inputs.size()) add_input(model_.inputs[inputs_++]);
    while (nodes_ < model_.nodes.size()) add_node(model_.nodes[nodes_++]);
  }

  const Value& value(const std::string& name) { return g_.value(get(name)); }

 private:
  void add_input(const ModelInput& in) {
    std::vector<int64_t> dims = in.dims;
    std::ranges::replace(dims, kBatch, batch_);
    TensorType type{in.dtype, Shape(std::move(dims))};
    const auto given = known_.find(in.name);
    if (given == known_.end()) {
      by_name_[in.name] = g_.add_input(in.name, std::move(type));
      return;
    }
    if (given->second.type() != type) {
      throw Error("input '", in.name, "' is ", type, ", was given ", given->second.type());
    }
    by_name_[in.name] = g_.add_constant(in.name, given->second);
  }

  ValueId get(const std::string& name) {
    if (name.empty()) return kNone;
    if (const auto it = by_name_.find(name); it != by_name_.end()) return it->second;
    const auto it = model_.initialisers.find(name);
    if (it == model_.initialisers.end()) throw Error("value '", name, "' comes from nowhere");
    const bool weight = is_float(it->second.type().dtype);
    return by_name_[name] =
               weight ? g_.add_param(name, it->second) : g_.add_constant(name, it->second);
  }

  void add_node(const ModelNode& n) try {
    std::vector<ValueId> in;
    for (const std::string& name : n.inputs) in.push_back(get(name));
    const size_t nodes = g_.nodes().size();
    std::vector<ValueId> out = g_.add(n.op, in, n.attrs, static_cast<int>(n.outputs.size()));
    if (g_.nodes().size() > nodes && folds(in) && worth_folding(g_, g_.nodes().back())) {
      const Node node = g_.nodes().back();
      std::vector<Tensor> results = run_on_constants(g_, node);
      for (size_t k = 0; k < out.size(); ++k) out[k] = g_.add_constant("", std::move(results[k]));
    } else if (g_.nodes().size() > nodes && find_op(n.op).compose) {
      out = composed(g_, Node(g_.nodes().back()));
    } else if (g_.nodes().size() > nodes && find_op(n.op).reference_only) {
      throw Error(n.op,
                  ": only shape arithmetic may use it, but its inputs are not known in advance"
                  " or its result is too large");
    }
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      if (n.outputs[k].empty()) continue;
      g_.rename(out[k], n.outputs[k]);
      by_name_[n.outputs[k]] = out[k];
    }
  } catch (const Error& e) {
    throw Error("node computing '", n.outputs.empty() ? "" : n.outputs[0], "': ", e.what());
  }

  bool folds(const std::vector<ValueId>& in) const {
    return !in.empty() && std::ranges::all_of(in, [&](ValueId v) {
      return v == kNone || g_.value(v).kind == ValueKind::kConstant;
    });
  }

  const Model& model_;
  int64_t batch_;
  const std::map<std::string, Tensor>& known_;
  Graph g_;
  std::map<std::string, ValueId> by_name_;
  size_t inputs_ = 0, nodes_ = 0;  // that were added
};

}  // namespace

Graph bind(const Model& model, int64_t batch, const std::map<std::string, Tensor>& known) {
  if (batch < 1) throw Error("a batch has at least one item, not ", batch);
  return Binder(model, batch, known).run();
}

struct GrowingTypes::Bound {
  Bound(const Model& model, int64_t batch) : binder(model, batch, none) {}

  const Value& value(const std::string& name) {
    binder.add_rest();
    return binder.value(name);
  }

  const std::map<std::string, Tensor> none;
  Binder binder;
};

GrowingTypes::GrowingTypes(const Model& model, int64_t batch)
    : bound_(std::make_unique<Bound>(model, batch)) {}

GrowingTypes::~GrowingTypes() = default;

const TensorType& GrowingTypes::of(const std::string& value) { return bound_->value(value).type; }

const Tensor* GrowingTypes::data(const std::string& value) {
  const Tensor& t = bound_->value(value).data;
  return t.defined() ? &t : nullptr;
}

std::vector<std::string> shape_inputs(const Model& model) {
  std::set<std::string> wanted;
  for (size_t i = model.nodes.size(); i-- > 0;) {
    const ModelNode& n = model.nodes[i];
    const OpDef& def = find_op(n.op);
    const bool decides =
        def.reference_only ||
        std::ranges::any_of(n.outputs, [&](const auto& name) { return wanted.contains(name); });
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      const bool by_type_alone = n.op == "Shape" || n.op == "Size";
      if (by_type_alone || n.inputs[k].empty()) continue;
      if (decides || (k < 64 && (def.shape_inputs >> k & 1))) wanted.insert(n.inputs[k]);
    }
  }
  std::vector<std::string> result;
  for (const ModelInput& in : model.inputs) {
    if (wanted.contains(in.name)) result.push_back(in.name);
  }
  return result;
}

}  // namespace ndtrain
