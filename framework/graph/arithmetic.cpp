#include "framework/graph/arithmetic.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "framework/graph/op.h"

namespace ndtrain {
namespace {

// Of the others that have terms, most sum what they read without a product.
constexpr std::string_view kProducts[] = {
    "Conv",        "FusedConv",     "FusedQLinearConv", "ConvElementwise",
    "ConvMaxPool", "ConvGradInput", "ConvGradWeight",   "Gemm",
    "MatMul",      "FusedMatMul"};

// A gradient by strides has terms for taps that meet nothing: it has the products of its forward
// convolution, one of each weight of a channel for each element of dy.
double input_gradient(const Shape& dy, const Shape& w) {
  return 2.0 * static_cast<double>(dy.count()) * static_cast<double>(w.count(1, w.rank()));
}

}  // namespace

double arithmetic(const Graph& g, const Node& n) {
  if (std::ranges::find(kProducts, n.op) == std::end(kProducts)) return 0;
  if (n.op == "ConvGradInput") return input_gradient(g.shape(n.inputs[0]), g.shape(n.inputs[1]));
  std::vector<TensorType> in;
  for (const ValueId v : n.inputs) {
    in.push_back(v == kNone ? TensorType{DType::kNone, {}} : g.type(v));
  }
  return 2.0 * static_cast<double>(find_op(n.op).terms(n.attrs, in)) *
         static_cast<double>(g.shape(n.outputs[0]).count());
}

}  // namespace ndtrain
