// FusedElementwise: a few elementwise ops in a row as one, element by element; what a pass makes of
// them for devices whose memory is slower than their arithmetic. Its inputs broadcast to y; `steps`
// says what is computed of them (framework/graph/elementwise_steps.h), each step as the op of its
// name defines it, without rounding in between.
#include "framework/graph/elementwise_steps.h"
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

using Kind = ElementwiseOperand::Kind;

// What the steps are computed of, and the type that each gives.
struct Program {
  std::vector<ElementwiseStep> steps;
  std::vector<TensorType> types;
};

template <typename T>
std::vector<T> operands(const ElementwiseStep& step, std::span<const T> inputs,
                        std::span<const T> results, const auto& of_number) {
  std::vector<T> list;
  for (const ElementwiseOperand& o : step.operands) {
    list.push_back(o.kind == Kind::kInput  ? inputs[o.at]
                   : o.kind == Kind::kStep ? results[o.at]
                                           : of_number(o.number));
  }
  return list;
}

std::vector<TensorType> types_of(const Program& p, size_t step, std::span<const TensorType> in) {
  return operands<TensorType>(p.steps[step], in, p.types, [&](double) {
    return TensorType{in[0].dtype, {}};
  });
}

Program program_of(const Attrs& attrs, std::span<const TensorType> in) {
  Program p{.steps = elementwise_steps(attrs.s("steps"), in.size()), .types = {}};
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const std::vector<TensorType> types = types_of(p, i, in);
    std::vector<TensorType> out;
    std::vector<Tensor> known(types.size()), out_known;
    InferContext c{p.steps[i].attrs, types, known, 1, out, out_known};
    find_op(p.steps[i].op).infer(c);
    p.types.push_back(out.at(0));
  }
  return p;
}

void infer(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  for (size_t i = 1; i < c.in.size(); ++i) require_same_dtype(c, 0, i);
  const TensorType y = program_of(c.attrs, c.in).types.back();
  Shape all = y.shape;
  for (size_t i = 0; i < c.in.size(); ++i) all = broadcast(all, c.shape(i), "the inputs");
  if (all != y.shape) throw Error("an input is larger than the result, which is ", y.shape);
  c.out.push_back(y);
}

void reference(const ReferenceContext& c) {
  using Values = std::vector<double>;
  const Program p = program_of(c.attrs, c.in_types);
  std::vector<Values> results;
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const std::vector<TensorType> types = types_of(p, i, c.in_types);
    const std::vector<Values> in =
        operands<Values>(p.steps[i], c.in, results, [](double number) { return Values{number}; });
    std::vector<Values> out(1, Values(static_cast<size_t>(p.types[i].shape.count())));
    find_op(p.steps[i].op).reference({p.steps[i].attrs, types, {&p.types[i], 1}, in, out});
    results.push_back(std::move(out[0]));
  }
  c.out[0] = results.back();
}

int64_t terms(const Attrs& a, std::span<const TensorType> in) {
  return static_cast<int64_t>(elementwise_steps(a.s("steps"), in.size()).size());
}

std::vector<Example> examples() {
  const auto steps = [](const char* text) { return Attrs{{"steps", text}}; };
  const auto range = [](Shape s, DType t = DType::kF32) {
    return ExampleInput::range(std::move(s), -4, 4, t);
  };
  const Attrs silu = steps("Sigmoid x0; Mul x0 y0");
  const Attrs hard_swish = steps("Add x0 3; Clip y0 0 6; Mul x0 y1; Div y2 6");
  const Attrs gelu = steps("Div x0 1.4142135; Erf y0; Add y1 1; Mul x0 y2; Mul y3 0.5");
  const Attrs shifted = steps("Mul x0 x1; Add y0 x2; Relu y1");
  const Attrs many =
      steps("Abs x0; Neg x1; Exp y1; Add y0 y2; Sqrt y3; Sub y4 y2; Tanh y5; Pow y6 2; Mul y7 y0");
  const Attrs attributes = steps(
      "LeakyRelu x0 alpha=0.1; Elu y0 alpha=0.5; HardSigmoid y1 alpha=0.2 beta=0.5; "
      "HardSwish y2; Gelu y3 approximate=tanh; Gelu y4 approximate=none; Reciprocal x1; "
      "Add y5 y6");
  const DType half = DType::kF16, brain = DType::kBF16;
  return {
      {{range({3, 11})}, silu},
      {{range({2, 3, 5, 4})}, hard_swish},
      {{range({2, 3, 8})}, gelu},
      {{range({2, 6, 5, 3}), {6, 1, 1}, {6, 1, 1}}, shifted},
      {{range({4, 16}), {16}, {4, 16}}, shifted},
      {{range({2, 3, 4}), range({3, 1}), range({4}), range({})},
       steps("Add x0 x1; Mul y0 x2; Sub y1 x3; Clip y2 -inf 2")},
      {{{5, 7}, {5, 7}}, many},
      {{range({40}), {40}}, attributes},
      {{range({2, 3, 5, 4}, half)}, hard_swish},
      {{range({3, 70}, half)}, silu},
      {{range({2, 6, 4, 4}, brain), {brain, {6, 1, 1}}, {brain, {6, 1, 1}}}, shifted},
      {{range({64}, brain)}, gelu},
      {{range({12}, DType::kF64)}, gelu},
  };
}

}  // namespace

std::vector<OpDef> fused_elementwise_ops() {
  return {{.name = "FusedElementwise",
           .facts = mapping({}),
           .min_inputs = 1,
           .max_inputs = static_cast<int>(kMostElementwiseInputs),
           .attrs = {{.name = "steps", .kind = AttrSpec::Kind::kString, .required = true}},
           .infer = infer,
           .reference = reference,
           .terms = terms,
           .optional_fusion = always,
           .examples = examples()}};
}

}  // namespace ndtrain
