// Compress: the slices of x along an axis, or without one its elements, where a condition holds.
// How many these are is the output's shape, so that the condition must be known: in a graph it is a
// Gather of places.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

Ints places_of(const Ints& condition) {
  Ints places;
  for (size_t i = 0; i < condition.size(); ++i) {
    if (condition[i] != 0) places.push_back(static_cast<int64_t>(i));
  }
  return places;
}

// x as it is compressed: along `axis` of `shape`.
struct Compressed {
  Shape shape;
  int axis;
};

Compressed compressed(const Attrs& a, const Shape& x) {
  if (!a.has("axis")) return {{x.count()}, 0};
  return {x, x.axis(a.i("axis"), "axis")};
}

void infer(InferContext& c) {
  require(c, 1, is_bool, "bool");
  const auto [x, axis] = compressed(c.attrs, c.shape(0));
  const Ints condition = c.ints(1);
  if (c.shape(1).rank() != 1 || c.shape(1)[0] > x[axis]) {
    throw Error("the condition is ", c.in[1], ", must be bool[", x[axis], "] at most");
  }
  const auto n = static_cast<int64_t>(places_of(condition).size());
  c.out = {{c.in[0].dtype, x.with(axis, n)}};
}

void reference(const ReferenceContext& c) {
  const auto [x, axis] = compressed(c.attrs, c.shape(0));
  const Ints places = places_of(c.ints(1));
  const auto n = static_cast<int64_t>(places.size());
  const int64_t outer = x.count(0, axis), inner = x.count(axis + 1, x.rank());
  for (int64_t i = 0; i < outer * n; ++i) {
    const int64_t from = i / n * x[axis] + places[static_cast<size_t>(i % n)];
    std::copy_n(c.in[0].begin() + from * inner, inner, c.out[0].begin() + i * inner);
  }
}

std::vector<ValueId> compose(ComposeContext& c) {
  const auto [x, axis] = compressed(c.node.attrs, c.shape(0));
  const Ints places = places_of(c.g.value(c.x(1)).data.to_ints());
  const ValueId flat = reshape(c.g, c.x(0), x);
  return {c.g.add1("Gather", {flat, c.g.add_constant("", places)},
                   {{"axis", static_cast<int64_t>(axis)}})};
}

std::vector<Example> examples() {
  using E = ExampleInput;
  const auto where = [](std::vector<double> v) {
    const auto n = static_cast<int64_t>(v.size());
    E e = E::given(DType::kBool, {n}, std::move(v));
    e.known = true;
    return e;
  };
  return {{{{3, 2}, where({0, 1, 1})}, {{"axis", int64_t{0}}}},
          {{{2, 3, 2}, where({0, 1})}, {{"axis", int64_t{-2}}}},
          {{{3, 2}, where({0, 1, 0, 0, 1})}},
          {{{2, 2}, where({0, 0})}, {{"axis", int64_t{1}}}},
          {{{DType::kF16, {4}}, where({1, 0, 1})}},
          {{{DType::kBF16, {4}}, where({1, 0, 1})}},
          {{{DType::kI64, {4}}, where({1, 0, 1})}}};
}

}  // namespace

std::vector<OpDef> compress_ops() {
  return {{.name = "Compress",
           .facts = moving({.onnx = 9, .onnx_later = {{28, DType::kBF16}}}),
           .min_inputs = 2,
           .max_inputs = 2,
           .attrs = {{"axis", AttrSpec::Kind::kInt}},
           .infer = infer,
           .reference = reference,
           .shape_inputs = 0b10,
           .compose = compose,
           .examples = examples()}};
}

}  // namespace ndtrain
