// Expand broadcasts x and a shape against each other; Tile repeats x along every axis.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

void expand_infer(InferContext& c) {
  require(c, 1, is_integer, "an integer dtype");
  c.out = {{c.in[0].dtype, broadcast(c.shape(0), Shape(c.ints(1)), "broadcast")}};
}

void expand_reference(const ReferenceContext& c) {
  const Shape shapes[] = {c.shape(0)};
  for_each_broadcast(c.out_shape(), shapes,
                     [&](int64_t i, std::span<const int64_t> at) { c.out[0][i] = c.in[0][at[0]]; });
}

std::vector<ValueId> expand_gradient(GradientContext& c) {
  const Shape x = c.shape(c.x(0));
  return {unbroadcast(c.g, c.dy[0], x)};
}

void tile_infer(InferContext& c) {
  require(c, 1, is_integer, "an integer dtype");
  const Ints repeats = c.ints(1);
  std::vector<int64_t> dims = c.shape(0).dims();
  if (repeats.size() != dims.size()) {
    throw Error(repeats.size(), " repeats are given, the input is ", c.in[0]);
  }
  for (size_t d = 0; d < dims.size(); ++d) {
    if (repeats[d] < 0 || __builtin_mul_overflow(dims[d], repeats[d], &dims[d])) {
      throw Error("axis ", d, " of ", c.in[0], " is repeated ", repeats[d], " times");
    }
  }
  c.out = {{c.in[0].dtype, Shape(std::move(dims))}};
}

void tile_reference(const ReferenceContext& c) {
  const Shape& x = c.shape(0);
  const Shape& y = c.out_shape();
  const std::vector<int64_t> strides = x.strides();
  for (int64_t i = 0; i < y.count(); ++i) {
    int64_t rest = i, at = 0;
    for (int d = y.rank() - 1; d >= 0; --d) {
      at += rest % y[d] % x[d] * strides[static_cast<size_t>(d)];
      rest /= y[d];
    }
    c.out[0][i] = c.in[0][at];
  }
}

// Axis by axis: dy as [before, repeats, the axis and all behind it], summed over the repeats.
std::vector<ValueId> tile_gradient(GradientContext& c) {
  const Shape x = c.shape(c.x(0));
  Shape y = c.shape(c.y());
  ValueId d = c.dy[0];
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (y[axis] == x[axis]) continue;
    const int64_t before = y.count(0, axis), behind = y.count(axis + 1, y.rank());
    const int64_t repeats = x[axis] == 0 ? 0 : y[axis] / x[axis];
    d = reshape(c.g, d, {before, repeats, x[axis] * behind});
    d = c.g.add1("ReduceSum", {d, c.g.add_constant("", Ints{1})}, {{"keepdims", int64_t{0}}});
    y = y.with(axis, x[axis]);
  }
  return {reshape(c.g, d, x)};
}

}  // namespace

std::vector<OpDef> expand_ops() {
  using E = ExampleInput;
  return {
      {.name = "Expand",
       .facts = moving({.onnx = 8}),
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = expand_infer,
       .reference = expand_reference,
       .gradient = expand_gradient,
       .shape_inputs = 0b10,
       .examples = in_moved_dtypes({{{{3, 1}, E::ints({2, 1, 6})}},
                                    {{{3, 1}, E::ints({3, 4})}},
                                    {{{3, 2}, E::ints({1})}},
                                    {{{1, 8, 1, 1}, E::ints({2, 8, 3, 3})}},
                                    {{Shape{}, E::ints({2, 3})}},
                                    {{{2}, E::ints({})}},
                                    {{{1, 3}, E::ints({0, 3})}}},
                                   [](DType t) {
                                     return Example{{{t, {3, 1}}, E::ints({3, 4})}};
                                   })},
      {.name = "Tile",
       .facts =
           {.onnx = 1, .kind = OpKind::kMove, .sign = Sign::kAsInputs, .rank = RankRule::kFirst},
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = tile_infer,
       .reference = tile_reference,
       .gradient = tile_gradient,
       .shape_inputs = 0b10,
       .examples = in_moved_dtypes({{{{3}, E::ints({2})}},
                                    {{{2, 3}, E::ints({2, 2})}},
                                    {{{2, 3, 4, 1}, E::ints({1, 3, 1, 2})}},
                                    {{{2, 1, 2, 1, 2}, E::ints({2, 2, 1, 2, 1})}},
                                    {{{2, 3}, E::ints({1, 1})}},
                                    {{{2, 3}, E::ints({0, 1})}},
                                    {{Shape{}, E::ints({})}}},
                                   [](DType t) {
                                     return Example{{{t, {2, 3}}, E::ints({2, 2})}};
                                   })},
  };
}

}  // namespace ndtrain
