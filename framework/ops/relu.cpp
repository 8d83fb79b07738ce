// Relu: y = max(x, 0).
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

void reference(const ReferenceContext& c) {
  for (size_t i = 0; i < c.in[0].size(); ++i) c.out[0][i] = std::max(c.in[0][i], 0.0);
}

// Written in terms of y rather than x, so that a plan may run Relu in place.
std::vector<ValueId> gradient(GradientContext& c) {
  return {c.g.add1("ReluGrad", {c.dy[0], c.y()})};
}

// dx = dy where y > 0.
void grad_reference(const ReferenceContext& c) {
  for (size_t i = 0; i < c.in[0].size(); ++i) c.out[0][i] = c.in[1][i] > 0 ? c.in[0][i] : 0.0;
}

}  // namespace

std::vector<OpDef> relu_ops() {
  return {
      {.name = "Relu",
       .facts = mapping({.onnx = 1,
                         .rounding = Rounding::kExact,
                         .sign = Sign::kNeverNegative,
                         .clamp = true,
                         .step = true}),
       .infer = same_type,
       .reference = reference,
       .gradient = gradient,
       .examples = {{{{7}}}, {{{2, 3, 5, 4}}}, {{{DType::kBF16, {3, 11}}}}}},
      {.name = "ReluGrad",
       .facts = mapping({}),
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = same_type,
       .reference = grad_reference,
       .examples = {{{{7}, {7}}}, {{{3, 5}, {3, 5}}}}},
  };
}

}  // namespace ndtrain
