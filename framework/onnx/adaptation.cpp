#include "framework/onnx/adapt.h"

namespace ndtrain {

void Adaptation::set_input(size_t i, std::string name) {
  if (node.inputs.size() <= i) node.inputs.resize(i + 1);
  node.inputs[i] = std::move(name);
}

ValueFact Adaptation::fact(const std::string& value) const {
  const auto it = facts_.find(value);
  return it == facts_.end() ? ValueFact{} : it->second;
}

std::string Adaptation::fresh(const std::string& hint) {
  const std::string stem = (node.outputs.empty() ? node.op : node.outputs[0]) + "/" + hint;
  std::string name = stem;
  for (int n = 1; !names_.insert(name).second; ++n) name = stem + "#" + std::to_string(n);
  return name;
}

std::string Adaptation::constant(const Ints& values) { return constant(Tensor::i64(values)); }

// Float initialisers are weights, and this is none.
std::string Adaptation::constant(Tensor value) {
  if (is_float(value.type().dtype)) return before("Constant", {}, {{"value", std::move(value)}});
  const std::string name = fresh("constant");
  facts_[name] = {value.type().dtype, value.shape().rank()};
  model_.initialisers.emplace(name, std::move(value));
  return name;
}

std::string Adaptation::number(double value, const std::string& like) {
  DType dtype = fact(like).dtype;
  if (dtype == DType::kNone) dtype = DType::kF32;
  return constant(Tensor::from_doubles({dtype, Shape{}}, std::span(&value, 1)));
}

void Adaptation::become(std::string op, std::vector<std::string> inputs, Attrs attrs) {
  node.op = std::move(op);
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
}

std::string Adaptation::before(std::string op, std::vector<std::string> inputs, Attrs attrs) {
  return several_before(std::move(op), std::move(inputs), 1, std::move(attrs)).front();
}

std::vector<std::string> Adaptation::several_before(std::string op, std::vector<std::string> inputs,
                                                    size_t outputs, Attrs attrs) {
  std::vector<std::string> names;
  for (size_t k = 0; k < outputs; ++k) names.push_back(fresh(op));
  model_.nodes.push_back({std::move(op), std::move(inputs), names, std::move(attrs)});
  return names;
}

void Adaptation::after(size_t k, std::string op, std::vector<std::string> more_inputs,
                       Attrs attrs) {
  const std::string name = fresh(node.op);
  more_inputs.insert(more_inputs.begin(), name);
  following_.insert(
      following_.begin(),
      {std::move(op), std::move(more_inputs), {node.outputs.at(k)}, std::move(attrs)});
  node.outputs[k] = name;
}

void Adaptation::give(size_t k, const std::string& value) {
  if (k >= node.outputs.size() || node.outputs[k].empty()) return;
  model_.nodes.push_back({"Identity", {value}, {node.outputs[k]}, {}});
}

// Of a model that is refused already, what follows says nothing new.
void Adaptation::refuse(const std::string& why) {
  problems_.add(describe(node), ": ", why);
  refused_ = true;
}

}  // namespace ndtrain
