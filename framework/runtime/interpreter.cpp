#include "framework/runtime/interpreter.h"

#include "framework/graph/op.h"

namespace ndtrain {
namespace {

// A value nobody computes: an input, a param or a constant.
std::vector<double> leaf(const Graph& g, ValueId v) {
  const Value& value = g.value(v);
  if (!value.data.defined()) {
    throw Error("interpret: no data for ", value.name, " (value ", index(v), ", ", value.type, ")");
  }
  return value.data.to_doubles();
}

void check_given(const Graph& g, const DoubleValues& given) {
  for (const auto& [v, data] : given) {
    if (v == kNone || index(v) >= g.value_count()) {
      throw Error("interpret: there is no value ", static_cast<int32_t>(v));
    }
    if (static_cast<int64_t>(data.size()) != g.shape(v).count()) {
      throw Error("interpret: ", data.size(), " elements given for ", g.value(v).name,
                  ", which is ", g.type(v));
    }
  }
}

}  // namespace

DoubleValues interpret(const Graph& g, DoubleValues given) {
  check_given(g, given);
  DoubleValues values = std::move(given);
  auto get = [&](ValueId v) -> const std::vector<double>& {
    const auto it = values.find(v);
    return it != values.end() ? it->second : values.emplace(v, leaf(g, v)).first->second;
  };
  for (const Node& n : g.nodes()) {
    std::vector<TensorType> in_types, out_types;
    std::vector<std::vector<double>> in;
    for (const ValueId v : n.inputs) {
      in_types.push_back(v == kNone ? TensorType{DType::kNone, {}} : g.type(v));
      in.push_back(v == kNone ? std::vector<double>() : get(v));
    }
    for (const ValueId v : n.outputs) out_types.push_back(g.type(v));
    auto out = run_reference(find_op(n.op), n.attrs, in_types, out_types, in);
    for (size_t k = 0; k < out.size(); ++k) values[n.outputs[k]] = std::move(out[k]);
  }
  for (const ValueId v : g.outputs()) get(v);
  return values;
}

std::vector<Tensor> interpret_outputs(const Graph& g, std::span<const Tensor> inputs) {
  if (inputs.size() != g.inputs().size()) {
    throw Error("interpret: ", inputs.size(), " tensors given for ", g.inputs().size(), " inputs");
  }
  DoubleValues given;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueId v = g.inputs()[i];
    if (!(inputs[i].type() == g.type(v))) {
      throw Error("interpret: ", g.value(v).name, " is ", g.type(v), ", given ", inputs[i].type());
    }
    given.emplace(v, inputs[i].to_doubles());
  }
  const DoubleValues values = interpret(g, std::move(given));
  std::vector<Tensor> outputs;
  for (const ValueId v : g.outputs()) {
    outputs.push_back(Tensor::from_doubles(g.type(v), values.at(v)));
  }
  return outputs;
}

}  // namespace ndtrain
