#include "framework/onnx/normalise.h"

#include <algorithm>
#include <optional>
#include <set>

namespace ndtrain {
namespace {

class Normaliser {
 public:
  explicit Normaliser(Model& model) : model_(model), original_(model), types_(original_, 2) {}

  void run() {
    for (ModelNode& n : model_.nodes) {
      if (n.op == "Split") split(n);
      if (n.op == "Pad") pad(n);
      if (n.op.starts_with("Reduce")) reduce(n);
    }
    drop_unread();
  }

 private:
  static bool has(const ModelNode& n, size_t i) {
    return i < n.inputs.size() && !n.inputs[i].empty();
  }

  std::optional<Ints> known(const std::string& name) const {
    const auto it = model_.initialisers.find(name);
    if (it == model_.initialisers.end() || is_float(it->second.type().dtype)) return std::nullopt;
    return it->second.to_ints();
  }

  std::string constant(const ModelNode& n, const Ints& values) {
    std::string name = n.outputs.at(0) + "/" + n.op;
    while (model_.initialisers.contains(name)) name += "'";
    model_.initialisers.emplace(name, Tensor::i64(values));
    return name;
  }

  void split(ModelNode& n) {
    if (has(n, 1) || !n.attrs.has("num_outputs") || n.outputs.size() < 2) return;
    const TensorType* type = types_.find(n.inputs.at(0));
    if (type == nullptr) return;
    const int64_t along = n.attrs.has("axis") ? n.attrs.i("axis") : 0;
    const int64_t extent = type->shape[static_cast<int>(along)];
    const auto parts = static_cast<int64_t>(n.outputs.size());
    const int64_t part = (extent + parts - 1) / parts;
    if (part * parts == extent || part * (parts - 1) > extent) return;
    Ints sizes(n.outputs.size(), part);
    sizes.back() = extent - part * (parts - 1);
    n.attrs.erase("num_outputs");
    n.inputs.resize(1);
    n.inputs.push_back(constant(n, sizes));
  }

  void pad(ModelNode& n) {
    if (!has(n, 3) || !has(n, 1)) return;
    const std::optional<Ints> pads = known(n.inputs[1]), axes = known(n.inputs[3]);
    const TensorType* type = types_.find(n.inputs.at(0));
    if (!pads || !axes || type == nullptr || pads->size() != 2 * axes->size()) return;
    const auto rank = static_cast<size_t>(type->shape.rank());
    Ints all(2 * rank, 0);
    for (size_t i = 0; i < axes->size(); ++i) {
      const auto axis = static_cast<size_t>(type->shape.axis((*axes)[i], "Pad"));
      all[axis] = (*pads)[i];
      all[axis + rank] = (*pads)[i + axes->size()];
    }
    n.inputs[1] = constant(n, all);
    n.inputs.resize(has(n, 2) ? 3 : 2);
  }

  // ReduceSum has noop_with_empty_axes since opset 13, the others since 18.
  void reduce(ModelNode& n) {
    if (n.op == "ReduceSum" || !n.attrs.has("noop_with_empty_axes")) return;
    const bool noop = n.attrs.flag("noop_with_empty_axes");
    const std::optional<Ints> axes = has(n, 1) ? known(n.inputs[1]) : Ints{};
    if (!axes) return;
    n.attrs.set("noop_with_empty_axes", int64_t{0});
    if (axes->empty()) n.inputs.resize(1);
    if (!axes->empty() || !noop) return;
    n.attrs = {};
    if (n.op == "ReduceL1" || n.op == "ReduceL2") {
      n.op = "Abs";
    } else if (n.op == "ReduceLogSum") {
      n.op = "Log";
    } else if (n.op == "ReduceSumSquare") {
      n.op = "Mul";
      n.inputs.push_back(n.inputs[0]);
    } else {
      n.op = "Identity";
    }
  }

  void drop_unread() {
    std::set<std::string> used(model_.outputs.begin(), model_.outputs.end());
    for (const ModelNode& n : model_.nodes) used.insert(n.inputs.begin(), n.inputs.end());
    std::erase_if(model_.initialisers, [&](const auto& entry) {
      return !used.contains(entry.first) && !is_float(entry.second.type().dtype);
    });
  }

  Model& model_;
  const Model original_;
  ValueTypes types_;
};

bool concerns(const ModelNode& n) {
  return n.op == "Split" || (n.op == "Pad" && n.inputs.size() > 3) || n.op.starts_with("Reduce");
}

}  // namespace

const TensorType* ValueTypes::find(const std::string& value) {
  if (!inferred_) infer();
  const auto it = types_.find(value);
  return it == types_.end() ? nullptr : &it->second;
}

void ValueTypes::infer() try {
  inferred_ = true;
  if (!shape_inputs(model_).empty()) return;
  const Graph g = bind(model_, batch_);
  for (size_t i = 0; i < g.value_count(); ++i) {
    const Value& v = g.value(ValueId(static_cast<int32_t>(i)));
    if (!v.name.empty()) types_.emplace(v.name, v.type);
  }
  for (size_t k = 0; k < model_.outputs.size(); ++k) {
    types_.insert_or_assign(model_.outputs[k], g.type(g.outputs()[k]));
  }
} catch (const Error&) {
  // Whoever binds the model for good is told.
}

void normalise(Model& model) {
  if (std::ranges::any_of(model.nodes, concerns)) Normaliser(model).run();
}

}  // namespace ndtrain
