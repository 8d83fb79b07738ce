// Gather: slices of x along one axis, named by indices (negative ones count from the end):
// y[before, index…, behind] = x[before, indices[index…], behind]. GatherGrad adds them back.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

int64_t checked(double value, int64_t extent) {
  const int64_t i = static_cast<int64_t>(value);
  if (i < -extent || i >= extent) throw Error("index ", i, " is not in an axis of ", extent);
  return i < 0 ? i + extent : i;
}

void infer(InferContext& c) {
  require(c, 1, is_index, "i32 or i64");
  const Shape& x = c.shape(0);
  const int axis = x.axis(c.attrs.i("axis"), "axis");
  std::vector<int64_t> dims(x.dims().begin(), x.dims().begin() + axis);
  for (const int64_t d : c.shape(1).dims()) dims.push_back(d);
  dims.insert(dims.end(), x.dims().begin() + axis + 1, x.dims().end());
  c.out = {{c.in[0].dtype, Shape(std::move(dims))}};
}

// Calls f(index into y, index into x).
template <typename F>
void for_each_gathered(const Shape& x, int axis, const std::vector<double>& indices, F f) {
  const int64_t outer = x.count(0, axis), inner = x.count(axis + 1, x.rank());
  const int64_t n = static_cast<int64_t>(indices.size());
  for (int64_t k = 0; k < n; ++k) {
    const int64_t from = checked(indices[static_cast<size_t>(k)], x[axis]);
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i)
        f((o * n + k) * inner + i, (o * x[axis] + from) * inner + i);
    }
  }
}

void reference(const ReferenceContext& c) {
  const int axis = c.shape(0).axis(c.attrs.i("axis"), "axis");
  for_each_gathered(c.shape(0), axis, c.in[1],
                    [&](int64_t y, int64_t x) { c.out[0][y] = c.in[0][x]; });
}

std::vector<ValueId> gradient(GradientContext& c) {
  const Shape x = c.shape(c.x(0));
  return {c.g.add1("GatherGrad", {c.dy[0], c.x(1)},
                   {{"axis", c.node.attrs.i("axis")}, {"input_shape", x.dims()}})};
}

void grad_infer(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  require(c, 1, is_index, "i32 or i64");
  const Shape x(c.attrs.ints("input_shape"));
  const int axis = x.axis(c.attrs.i("axis"), "axis");
  std::vector<int64_t> dims(x.dims().begin(), x.dims().begin() + axis);
  for (const int64_t d : c.shape(1).dims()) dims.push_back(d);
  dims.insert(dims.end(), x.dims().begin() + axis + 1, x.dims().end());
  if (c.shape(0).dims() != dims) {
    throw Error("dy is ", c.in[0], ", must be ", Shape(dims), ": gathered from ", x);
  }
  c.out = {{c.in[0].dtype, x}};
}

void grad_reference(const ReferenceContext& c) {
  const Shape& x = c.out_shape();
  for_each_gathered(x, x.axis(c.attrs.i("axis"), "axis"), c.in[1],
                    [&](int64_t from, int64_t to) { c.out[0][to] += c.in[0][from]; });
}

std::vector<Example> gather_examples() {
  using E = ExampleInput;
  const auto at = [](std::vector<double> v, DType t = DType::kI64) {
    const int64_t n = static_cast<int64_t>(v.size());
    return E::given(t, {n}, std::move(v));
  };
  const auto axis = [](int64_t a) { return Attrs{{"axis", a}}; };
  std::vector<Example> list = {
      {{{5}, at({0, 4, 2})}},
      {{{5, 3}, at({0, 1, 1, 3})}},
      {{{2, 5, 3}, at({-1, 0, -5}, DType::kI32)}, axis(1)},
      {{{2, 3}, E::given(DType::kI64, {2, 2}, {0, 2, 1, 1})}, axis(-1)},
      {{{2, 3, 2}, E::given(DType::kI64, {}, {1})}, axis(1)},
      {{{5}, E::given(DType::kI64, {}, {-2})}},
      {{{2, 3}, E(DType::kI64, {0})}, axis(1)},
      {{{0, 3}, at({2, 0})}, axis(1)},
  };
  for (const DType t : kMovedDTypes) {
    list.push_back({{{t, {2, 4}}, at({3, 0, 3})}, axis(1)});
  }
  return list;
}

std::vector<Example> grad_examples() {
  using E = ExampleInput;
  const auto to = [](int64_t axis, Ints shape) {
    return Attrs{{"axis", axis}, {"input_shape", std::move(shape)}};
  };
  const E at = E::given(DType::kI64, {4}, {0, 1, 1, 3});
  return {
      {{{4}, at}, to(0, {5})},
      {{{4, 3}, at}, to(0, {5, 3})},
      {{{2, 3, 3}, E::given(DType::kI32, {3}, {-1, 0, -1})}, to(1, {2, 5, 3})},
      {{{2, 2, 2}, E::given(DType::kI64, {2, 2}, {0, 2, 1, 1})}, to(-1, {2, 3})},
      {{{2, 2}, E::given(DType::kI64, {}, {1})}, to(1, {2, 3, 2})},
      {{{2, 0}, E(DType::kI64, {0})}, to(1, {2, 3})},
      {{{DType::kF64, {4}}, at}, to(0, {5})},
      {{{DType::kF16, {4}}, at}, to(0, {5})},
  };
}

}  // namespace

std::vector<OpDef> gather_ops() {
  const AttrSpec axis{"axis", AttrSpec::Kind::kInt, Attr(int64_t{0})};
  return {
      {.name = "Gather",
       .facts = moving({.onnx = 1}),
       .min_inputs = 2,
       .max_inputs = 2,
       .attrs = {axis},
       .infer = infer,
       .reference = reference,
       .gradient = gradient,
       .examples = gather_examples()},
      {.name = "GatherGrad",
       .min_inputs = 2,
       .max_inputs = 2,
       .attrs = {axis, {.name = "input_shape", .kind = AttrSpec::Kind::kInts, .required = true}},
       .infer = grad_infer,
       .reference = grad_reference,
       .examples = grad_examples()},
  };
}

}  // namespace ndtrain
