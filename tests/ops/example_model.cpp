#include "tests/ops/example_model.h"

namespace ndtrain {

ExampleModel example_model(const OpDef& def, const Example& example) {
  ExampleModel made;
  const ExampleGraph e = build_example(def, example);
  ModelNode node{std::string(def.name), {}, {}, example.attrs};
  for (size_t i = 0; i < example.inputs.size(); ++i) {
    const ExampleInput& in = example.inputs[i];
    const bool absent = in.type.dtype == DType::kNone;
    node.inputs.push_back(absent ? "" : "x" + std::to_string(i));
    if (absent) continue;
    const Tensor value = Tensor::from_doubles(in.type, e.values[i]);
    if (in.known) {
      made.model.initialisers[node.inputs[i]] = value;
      continue;
    }
    const Ints dims(in.type.shape.dims().begin(), in.type.shape.dims().end());
    made.model.inputs.push_back({node.inputs[i], in.type.dtype, dims});
    made.inputs.push_back(value);
  }
  for (size_t k = 0; k < e.outputs.size(); ++k) node.outputs.push_back("y" + std::to_string(k));
  made.model.outputs = node.outputs;
  made.model.nodes.push_back(std::move(node));
  return made;
}

}  // namespace ndtrain
