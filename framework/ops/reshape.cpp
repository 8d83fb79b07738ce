// Reshape, Flatten, Squeeze and Unsqueeze: the same elements in the same order under another shape.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

void copy(const ReferenceContext& c) { c.out[0] = c.in[0]; }

std::vector<ValueId> gradient(GradientContext& c) {
  const Shape x = c.shape(c.x(0));
  return {reshape(c.g, c.dy[0], x)};
}

// 0 keeps the dim at its place (unless allowzero), one -1 is what remains.
void reshape_infer(InferContext& c) {
  require(c, 1, is_integer, "an integer dtype");
  Ints dims = c.ints(1);
  if (c.shape(1).rank() != 1) throw Error("the shape is ", c.in[1], ", must have rank 1");
  const Shape& x = c.shape(0);
  const bool allow_zero = c.attrs.flag("allowzero");
  int64_t* open = nullptr;
  bool any_zero = false;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 0 && !allow_zero) {
      if (static_cast<int>(d) >= x.rank()) {
        throw Error("dim ", d, " of the shape is 0, but the input is ", x);
      }
      dims[d] = x[static_cast<int>(d)];
    } else if (dims[d] == -1) {
      if (open) throw Error("the shape has more than one -1");
      open = &dims[d];
      *open = 1;
    }
    any_zero |= dims[d] == 0;
  }
  if (open && any_zero && allow_zero) throw Error("the shape has both 0 and -1");
  const int64_t rest = Shape(dims).count();
  if (open) {
    if (rest == 0 || x.count() % rest != 0) {
      throw Error("-1 does not fit: ", x, " has ", x.count(), " elements, the other dims ", rest);
    }
    *open = x.count() / rest;
  }
  const Shape y(dims);
  if (y.count() != x.count()) throw Error(x, " cannot become ", y);
  c.out = {{c.in[0].dtype, y}};
}

void flatten_infer(InferContext& c) {
  const Shape& x = c.shape(0);
  const int axis = x.axis(c.attrs.i("axis"), "axis", true);
  c.out = {{c.in[0].dtype, {x.count(0, axis), x.count(axis, x.rank())}}};
}

// The axes of a tensor of `rank` dims as a mask.
std::vector<bool> axis_mask(const Ints& axes, int rank) {
  std::vector<bool> mask(static_cast<size_t>(rank), false);
  for (const int64_t a : axes) {
    if (a < -rank || a >= rank) throw Error("axis ", a, " is not in [", -rank, ", ", rank, ")");
    const size_t d = static_cast<size_t>(a < 0 ? a + rank : a);
    if (mask[d]) throw Error("axes name dim ", d, " twice");
    mask[d] = true;
  }
  return mask;
}

void squeeze_infer(InferContext& c) {
  const Shape& x = c.shape(0);
  const bool given = c.has(1);
  const std::vector<bool> mask = axis_mask(given ? c.ints(1) : Ints(), x.rank());
  std::vector<int64_t> dims;
  for (int d = 0; d < x.rank(); ++d) {
    const bool named = mask[static_cast<size_t>(d)];
    if (named && x[d] != 1) throw Error("dim ", d, " of ", x, " is not 1");
    if (given ? !named : x[d] != 1) dims.push_back(x[d]);
  }
  c.out = {{c.in[0].dtype, Shape(std::move(dims))}};
}

void unsqueeze_infer(InferContext& c) {
  const Shape& x = c.shape(0);
  const Ints axes = c.ints(1);
  const int rank = x.rank() + static_cast<int>(axes.size());
  const std::vector<bool> mask = axis_mask(axes, rank);
  std::vector<int64_t> dims;
  int from = 0;
  for (int d = 0; d < rank; ++d) dims.push_back(mask[static_cast<size_t>(d)] ? 1 : x[from++]);
  c.out = {{c.in[0].dtype, Shape(std::move(dims))}};
}

std::vector<Example> reshape_examples() {
  using E = ExampleInput;
  const Attrs allow = {{"allowzero", int64_t{1}}};
  std::vector<Example> list = {
      {{{2, 3, 4}, E::ints({4, 2, 3})}},
      {{{2, 3, 4}, E::ints({2, 12})}},
      {{{2, 3, 4}, E::ints({24})}},
      {{{2, 3, 4}, E::ints({2, -1, 2})}},
      {{{2, 3, 4}, E::ints({0, 0, -1, 1})}},
      {{{2, 3, 4}, E::ints({-1, 0})}},
      {{{1, 1}, E::ints({})}},
      {{Shape{}, E::ints({1, 1})}},
      {{{0, 3, 4}, E::ints({3, 4, 0})}, allow},
      {{{3, 0}, E::ints({0, 0})}},
      {{{2, 3}, E::ints({-1, 6})}, allow},
  };
  return list;
}

OpDef reshape_op() {
  using E = ExampleInput;
  return {.name = "Reshape",
          .facts = moving({.onnx = 1, .view = true}),
          .min_inputs = 2,
          .max_inputs = 2,
          .attrs = {{"allowzero", AttrSpec::Kind::kInt, Attr(int64_t{0})}},
          .infer = reshape_infer,
          .reference = copy,
          .gradient = gradient,
          .shape_inputs = 0b10,
          .examples = in_moved_dtypes(reshape_examples(), [](DType t) {
            return Example{{{t, {2, 3}}, E::ints({3, 2})}};
          })};
}

OpDef flatten_op() {
  const auto axis = [](int64_t a) { return Attrs{{"axis", a}}; };
  return {.name = "Flatten",
          .facts = moving({.onnx = 1, .rank = RankRule::kTwo, .view = true}),
          .attrs = {{"axis", AttrSpec::Kind::kInt, Attr(int64_t{1})}},
          .infer = flatten_infer,
          .reference = copy,
          .gradient = gradient,
          .examples = in_moved_dtypes({{{{2, 3, 4, 5}}},
                                       {{{2, 3, 4}}, axis(0)},
                                       {{{2, 3, 4}}, axis(3)},
                                       {{{2, 3, 4}}, axis(-1)},
                                       {{{2, 3, 4}}, axis(-3)},
                                       {{Shape{}}, axis(0)},
                                       {{{0, 3}}}},
                                      [](DType t) {
                                        return Example{{{t, {2, 3, 2}}}};
                                      })};
}

OpDef squeeze_op() {
  using E = ExampleInput;
  return {.name = "Squeeze",
          .facts = moving({.onnx = 1, .view = true}),
          .max_inputs = 2,
          .infer = squeeze_infer,
          .reference = copy,
          .gradient = gradient,
          .shape_inputs = 0b10,
          .examples = in_moved_dtypes({{{{1, 3, 1, 4}}},
                                       {{{1, 3, 1, 4}, E::ints({0})}},
                                       {{{1, 3, 1, 4}, E::ints({-2, 0})}},
                                       {{{1, 3, 1, 4}, E::ints({})}},
                                       {{{1, 1}}},
                                       {{{1, 0}, E::ints({0})}}},
                                      [](DType t) {
                                        return Example{{{t, {2, 1, 3}}, E::ints({1})}};
                                      })};
}

OpDef unsqueeze_op() {
  using E = ExampleInput;
  return {.name = "Unsqueeze",
          .facts = moving({.onnx = 1, .view = true}),
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = unsqueeze_infer,
          .reference = copy,
          .gradient = gradient,
          .shape_inputs = 0b10,
          .examples = in_moved_dtypes({{{{3, 4}, E::ints({0})}},
                                       {{{3, 4}, E::ints({0, 3})}},
                                       {{{3, 4}, E::ints({4, 1, 2})}},
                                       {{{3, 4}, E::ints({-1, -3})}},
                                       {{Shape{}, E::ints({0})}},
                                       {{{0}, E::ints({1})}}},
                                      [](DType t) {
                                        return Example{{{t, {2, 3}}, E::ints({1})}};
                                      })};
}

}  // namespace

std::vector<OpDef> reshape_ops() {
  return {reshape_op(), flatten_op(), squeeze_op(), unsqueeze_op()};
}

}  // namespace ndtrain
