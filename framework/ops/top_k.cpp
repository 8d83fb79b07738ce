// TopK: the k largest (or smallest) elements along an axis and where they were. Of equal ones those
// with lower indices come first; NaN counts as larger than any number. `sorted` = 0 leaves the
// order open: they are sorted.
#include <numeric>

#include "framework/ops/common.h"

namespace ndtrain {
namespace {

void infer(InferContext& c) {
  require(c, 0, is_number, "a numeric dtype");
  const int axis = c.shape(0).axis(c.attrs.i("axis"), "axis");
  const Ints k = c.ints(1);
  if (k.size() != 1 || k[0] < 0 || k[0] > c.shape(0)[axis]) {
    throw Error("k is ", k.empty() ? -1 : k[0], ", must be one of 0 to the ", c.shape(0)[axis],
                " elements of dim ", axis);
  }
  const Shape y = c.shape(0).with(axis, k[0]);
  c.out = {{c.in[0].dtype, y}};
  if (c.n_outputs > 1) c.out.push_back({DType::kI64, y});
}

bool above(double a, double b) { return std::isnan(a) ? !std::isnan(b) : a > b; }

void reference(const ReferenceContext& c) {
  const Shape &x = c.shape(0), &y = c.out_shape();
  const int axis = x.axis(c.attrs.i("axis"), "axis");
  const int64_t n = x[axis], k = y[axis], inner = x.count(axis + 1, x.rank());
  const bool largest = c.attrs.flag("largest");
  std::vector<int64_t> order(static_cast<size_t>(n));
  for (int64_t line = 0; line < x.count(0, axis) * inner; ++line) {
    const int64_t start = line / inner * n * inner + line % inner;
    const auto value = [&](int64_t i) { return c.in[0][static_cast<size_t>(start + i * inner)]; };
    std::iota(order.begin(), order.end(), int64_t{0});
    std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
      return largest ? above(value(a), value(b)) : above(value(b), value(a));
    });
    for (int64_t i = 0; i < k; ++i) {
      const auto to = static_cast<size_t>(line / inner * k * inner + line % inner + i * inner);
      c.out[0][to] = value(order[static_cast<size_t>(i)]);
      if (c.out.size() > 1) c.out[1][to] = static_cast<double>(order[static_cast<size_t>(i)]);
    }
  }
}

std::vector<ValueId> gradient(GradientContext& c) {
  if (c.dy[0] == kNone) return {kNone, kNone};
  // The places, also where the node does not give them out.
  const ValueId at = c.g.add("TopK", {c.x(0), c.x(1)}, c.node.attrs, 2)[1];
  const Shape shape = c.shape(c.x(0));
  const ValueId zeros = expand(c.g, scalar_like(c.g, 0, c.x(0)), shape);
  return {c.g.add1("ScatterElements", {zeros, at, c.dy[0]}, {{"axis", c.node.attrs.i("axis")}}),
          kNone};
}

std::vector<Example> examples() {
  using E = ExampleInput;
  const Attrs smallest{{"axis", int64_t{0}}, {"largest", int64_t{0}}};
  std::vector<Example> list = {
      {.inputs = {E::no_ties({3, 7}), E::ints({3})}, .outputs = 2},
      {.inputs = {E::no_ties({4, 2, 3}), E::ints({2})}, .attrs = smallest, .outputs = 2},
      {.inputs = {E::no_ties({2, 5}), E::ints({0})}},
      {.inputs = {E::given(DType::kF32, {5}, {1, 3, 3, 0, 1}), E::ints({4})},
       .outputs = 2,
       .check_gradient = false}};
  for (const DType t : {DType::kF64, DType::kF16, DType::kBF16, DType::kI32, DType::kI64}) {
    list.push_back({.inputs = {E::range({2, 9}, -4, 4, t), E::ints({2})},
                    .outputs = 2,
                    .check_gradient = false});
  }
  return list;
}

}  // namespace

std::vector<OpDef> top_k_ops() {
  using Kind = AttrSpec::Kind;
  return {
      {.name = "TopK",
       .facts = moving({.onnx = 1, .onnx_later = {{24, DType::kBF16}}, .rank = RankRule::kFirst}),
       .min_inputs = 2,
       .max_inputs = 2,
       .max_outputs = 2,
       .attrs = {{"axis", Kind::kInt, Attr(int64_t{-1})},
                 {"largest", Kind::kInt, Attr(int64_t{1})},
                 {"sorted", Kind::kInt, Attr(int64_t{1})}},
       .infer = infer,
       .reference = reference,
       .gradient = gradient,
       .shape_inputs = 0b10,
       .by_reference = true,
       .examples = examples()}};
}

}  // namespace ndtrain
