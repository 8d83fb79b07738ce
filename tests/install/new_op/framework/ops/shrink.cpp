// Shrink: y = x + bias where x < -lambd, x - bias where x > lambd, else 0 (ONNX, opset 9).
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

void reference(const ReferenceContext& c) {
  const double lambd = c.attrs.f("lambd"), bias = c.attrs.f("bias");
  for (size_t i = 0; i < c.in[0].size(); ++i) {
    const double x = c.in[0][i];
    c.out[0][i] = x < -lambd ? x + bias : (x > lambd ? x - bias : 0);
  }
}

// dx = dy where |x| > lambd.
std::vector<ValueId> gradient(GradientContext& c) {
  const ValueId lambd = scalar_like(c.g, c.node.attrs.f("lambd"), c.x(0));
  const ValueId taken = c.g.add1("Greater", {c.g.add1("Abs", {c.x(0)}), lambd});
  return {c.g.add1("Where", {taken, c.dy[0], scalar_like(c.g, 0, c.dy[0])})};
}

std::vector<Example> examples() {
  std::vector<Example> list = unary_examples(kFloatDTypes, -2, 2);
  list.push_back({.inputs = {{40}}, .attrs = {{"lambd", 0.25}, {"bias", 0.5}}});
  return list;
}

}  // namespace

std::vector<OpDef> shrink_ops() {
  return {{.name = "Shrink",
           .facts = {.onnx = 9,
                     .kind = OpKind::kMap,
                     .rounding = Rounding::kRounds,
                     .per_image = each_image},
           .attrs = {{"bias", AttrSpec::Kind::kFloat, Attr(0.0)},
                     {"lambd", AttrSpec::Kind::kFloat, Attr(0.5)}},
           .infer = same_float_type,
           .reference = reference,
           .gradient = gradient,
           .examples = examples()}};
}

}  // namespace ndtrain
