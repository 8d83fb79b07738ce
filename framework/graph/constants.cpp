#include "framework/graph/constants.h"

#include <algorithm>

#include "framework/graph/op.h"

namespace ndtrain {

std::vector<Tensor> run_on_constants(const Graph& g, const Node& n) {
  std::vector<TensorType> in_types, out_types;
  std::vector<std::vector<double>> in;
  for (ValueId v : n.inputs) {
    in_types.push_back(v == kNone ? TensorType{DType::kNone, {}} : g.type(v));
    in.push_back(v == kNone ? std::vector<double>() : g.value(v).data.to_doubles());
  }
  for (ValueId v : n.outputs) out_types.push_back(g.type(v));
  const auto out = run_reference(find_op(n.op), n.attrs, in_types, out_types, in);
  std::vector<Tensor> result;
  for (size_t k = 0; k < out.size(); ++k) {
    result.push_back(Tensor::from_doubles(out_types[k], out[k]));
  }
  return result;
}

bool worth_folding(const Graph& g, const Node& n) {
  constexpr int64_t kSmall = int64_t{1} << 22;
  int64_t in_count = 0, out_count = 0;
  for (ValueId v : n.inputs) in_count += v == kNone ? 0 : g.shape(v).count();
  for (ValueId v : n.outputs) out_count += g.shape(v).count();
  return out_count <= std::max(kSmall, in_count);
}

}  // namespace ndtrain
