// Clip: y = min(max(x, low), high), where an absent limit does not limit; high wins if low > high.
// PRelu: y = x where x >= 0, else slope * x; slope broadcasts to x (He et al., 2015).
#include <limits>

#include "framework/ops/common.h"

namespace ndtrain {
namespace {

// Inputs `first` and `first` + 1 are the limits.
void check_limits(const InferContext& c, size_t first) {
  for (const size_t i : {first, first + 1}) {
    if (!c.has(i)) continue;
    require_same_dtype(c, 0, i);
    if (c.shape(i).count() != 1) throw Error("limit ", i, " is ", c.in[i], ", must be one number");
  }
}

void clip_infer(InferContext& c) {
  require(c, 0, is_number, "a numeric dtype");
  check_limits(c, 1);
  c.out = {c.in[0]};
}

void clip_grad_infer(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  if (!(c.in[0] == c.in[1])) throw Error("dy is ", c.in[0], ", x is ", c.in[1]);
  check_limits(c, 2);
  c.out = {c.in[0]};
}

double low(const ReferenceContext& c, size_t i) {
  return c.has(i) ? c.in[i][0] : -std::numeric_limits<double>::infinity();
}

double high(const ReferenceContext& c, size_t i) {
  return c.has(i) ? c.in[i][0] : std::numeric_limits<double>::infinity();
}

void clip_reference(const ReferenceContext& c) {
  const double lo = low(c, 1), hi = high(c, 2);
  for (size_t i = 0; i < c.in[0].size(); ++i) {
    c.out[0][i] = std::min(std::max(c.in[0][i], lo), hi);
  }
}

std::vector<ValueId> clip_gradient(GradientContext& c) {
  const ValueId lo = c.has(1) ? c.x(1) : kNone, hi = c.has(2) ? c.x(2) : kNone;
  return {c.wanted[0] ? c.g.add1("ClipGrad", {c.dy[0], c.x(0), lo, hi}) : kNone};
}

// dx = dy where low <= x <= high.
void clip_grad_reference(const ReferenceContext& c) {
  const double lo = low(c, 2), hi = high(c, 3);
  for (size_t i = 0; i < c.in[0].size(); ++i) {
    const double x = c.in[1][i];
    c.out[0][i] = x >= lo && x <= hi ? c.in[0][i] : 0;
  }
}

std::vector<Example> clip_examples(bool grad) {
  using E = ExampleInput;
  std::vector<Example> examples;
  auto add = [&](E x, E lo, E hi) {
    Example e;
    if (grad) e.inputs.push_back({x.type.dtype, x.type.shape});
    e.inputs.insert(e.inputs.end(), {std::move(x), std::move(lo), std::move(hi)});
    examples.push_back(std::move(e));
  };
  add({2, 3, 5}, E::scalar(-0.4), E::scalar(0.6));
  add({7}, E::scalar(0), E::scalar(6));
  add({7}, E::absent(), E::scalar(0.3));
  add({7}, E::scalar(-0.3), E::absent());
  add({7}, E::absent(), E::absent());
  add({7}, E::scalar(0.5), E::scalar(-0.5));
  add(Shape{}, E::scalar(-0.4), E::scalar(0.6));
  add({0, 2}, E::scalar(-0.4), E::scalar(0.6));
  add({5}, E::given(DType::kF32, {1}, {-0.25}), E::given(DType::kF32, {1}, {0.25}));
  examples.back().check_gradient = grad;  // the limits are not known here: nothing flows to them
  for (const DType t : {DType::kF64, DType::kF16, DType::kBF16}) {
    add({t, {3, 5}}, E::scalar(-0.5, t), E::scalar(0.5, t));
  }
  if (grad) return examples;
  for (const DType t : {DType::kI8, DType::kI32, DType::kI64}) {
    add({t, {3, 5}}, E::scalar(-3, t), E::scalar(4, t));
  }
  add({DType::kU8, {3, 5}}, E::scalar(3, DType::kU8), E::absent());
  return examples;
}

void prelu_infer(InferContext& c) {
  require(c, 0, is_number, "a numeric dtype");
  require_same_dtype(c, 0, 1);
  if (!(broadcast(c.shape(0), c.shape(1), "broadcast") == c.shape(0))) {
    throw Error("the slope, ", c.in[1], ", does not broadcast to ", c.in[0]);
  }
  c.out = {c.in[0]};
}

void prelu_reference(const ReferenceContext& c) {
  const Shape shapes[] = {c.shape(1)};
  for_each_broadcast(c.out_shape(), shapes, [&](int64_t i, std::span<const int64_t> at) {
    const double x = c.in[0][i];
    c.out[0][i] = x < 0 ? c.in[1][at[0]] * x : x;
  });
}

std::vector<ValueId> prelu_gradient(GradientContext& c) {
  const ValueId x = c.x(0), dy = c.dy[0], zero = scalar_like(c.g, 0, x);
  std::vector<ValueId> d = {kNone, kNone};
  if (c.wanted[0]) {
    const ValueId below = c.g.add1("Less", {x, zero});
    d[0] = c.g.add1("Where", {below, c.g.add1("Mul", {dy, c.x(1)}), dy});
  }
  if (c.wanted[1]) {
    const Shape shape = c.shape(c.x(1));
    d[1] = unbroadcast(c.g, c.g.add1("Mul", {dy, c.g.add1("Min", {x, zero})}), shape);
  }
  return d;
}

}  // namespace

std::vector<OpDef> clip_ops() {
  return {
      {.name = "Clip",
       .facts = mapping({.onnx = 1, .rounding = Rounding::kExact, .clamp = true, .step = true}),
       .max_inputs = 3,
       .infer = clip_infer,
       .reference = clip_reference,
       .gradient = clip_gradient,
       .examples = clip_examples(false)},
      {.name = "ClipGrad",
       .facts = mapping({}),
       .min_inputs = 2,
       .max_inputs = 4,
       .infer = clip_grad_infer,
       .reference = clip_grad_reference,
       .examples = clip_examples(true)},
      {.name = "PRelu",
       .facts = mapping({.onnx = 1, .rounding = Rounding::kRounds}),
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = prelu_infer,
       .reference = prelu_reference,
       .gradient = prelu_gradient,
       .examples = {{{{2, 3, 4}, {2, 3, 4}}},
                    {{{2, 3, 5, 4}, {3, 1, 1}}},
                    {{{2, 3}, {1}}},
                    {{{2, 3}, Shape{}}},
                    {{Shape{}, Shape{}}},
                    {{{0, 3}, {3}}},
                    {{{DType::kF64, {2, 3}}, {DType::kF64, {3}}}},
                    {{{DType::kF16, {2, 3}}, {DType::kF16, {3}}}},
                    {{{DType::kBF16, {2, 3}}, {DType::kBF16, {3}}}},
                    {{{DType::kI32, {2, 3}}, {DType::kI32, {3}}}},
                    {{{DType::kI64, {2, 3}}, {DType::kI64, {3}}}}}},
  };
}

}  // namespace ndtrain
