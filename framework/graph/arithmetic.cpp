#include "framework/graph/arithmetic.h"

#include <vector>

#include "framework/graph/op.h"

namespace ndtrain {
namespace {

// A gradient by strides has terms for taps that meet nothing: it has the products of its forward
// convolution, one of each weight of a channel for each element of dy.
double input_gradient(const Shape& dy, const Shape& w) {
  return 2.0 * static_cast<double>(dy.count()) * static_cast<double>(w.count(1, w.rank()));
}

}  // namespace

double arithmetic(const Graph& g, const Node& n) {
  const OpDef& def = find_op(n.op);
  if (def.facts.kind != OpKind::kProduct) return 0;
  if (n.op == "ConvGradInput") return input_gradient(g.shape(n.inputs[0]), g.shape(n.inputs[1]));
  std::vector<TensorType> in;
  for (const ValueId v : n.inputs) {
    in.push_back(v == kNone ? TensorType{DType::kNone, {}} : g.type(v));
  }
  return 2.0 * static_cast<double>(def.terms(n.attrs, in)) *
         static_cast<double>(g.shape(n.outputs[0]).count());
}

}  // namespace ndtrain
