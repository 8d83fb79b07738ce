// GatherElements and ScatterElements: single elements along an axis, named by indices of the shape
// of what is taken or put: y[i, j] = x[indices[i, j], j] along axis 0. Of places that are named
// more than once the last update counts, or all are added, multiplied, … in their order.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

void check_indices(const InferContext& c, size_t i) {
  require(c, i, is_index, "i32 or i64");
  const Shape &x = c.shape(0), &at = c.shape(i);
  const int axis = x.axis(c.attrs.i("axis"), "axis");
  if (at.rank() != x.rank()) throw Error("ranks differ: ", c.in[0], " and indices ", c.in[i]);
  for (int d = 0; d < x.rank(); ++d) {
    if (d != axis && at[d] > x[d]) throw Error("indices ", at, " reach beyond ", x);
  }
}

// Calls f(index into the indices, index into x).
template <typename F>
void for_each_element(const ReferenceContext& c, F f) {
  const Shape &x = c.shape(0), &at = c.shape(1);
  const int axis = x.axis(c.attrs.i("axis"), "axis");
  std::vector<int64_t> steps = x.strides();
  const int64_t along = steps[static_cast<size_t>(axis)];
  steps[static_cast<size_t>(axis)] = 0;
  for_each_strided(at, steps, 0, [&](int64_t i, int64_t start) {
    const int64_t n = x[axis], v = static_cast<int64_t>(c.in[1][static_cast<size_t>(i)]);
    if (v < -n || v >= n) throw Error("index ", v, " is not in an axis of ", n);
    f(i, start + (v < 0 ? v + n : v) * along);
  });
}

void gather_infer(InferContext& c) {
  check_indices(c, 1);
  c.out = {{c.in[0].dtype, c.shape(1)}};
}

void gather_reference(const ReferenceContext& c) {
  for_each_element(c, [&](int64_t i, int64_t at) { c.out[0][i] = c.in[0][at]; });
}

ValueId zeros_like(Graph& g, ValueId v) {
  const Shape shape = g.shape(v);
  return expand(g, scalar_like(g, 0, v), shape);
}

std::vector<ValueId> gather_gradient(GradientContext& c) {
  return {c.g.add1("ScatterElements", {zeros_like(c.g, c.x(0)), c.x(1), c.dy[0]},
                   {{"axis", c.node.attrs.i("axis")}, {"reduction", "add"}}),
          kNone};
}

void scatter_infer(InferContext& c) {
  check_indices(c, 1);
  require_same_dtype(c, 0, 2);
  const std::string& how = c.attrs.s("reduction");
  if (how != "none" && how != "add" && how != "mul" && how != "min" && how != "max") {
    throw Error("reduction is '", how, "', must be none, add, mul, min or max");
  }
  if (how != "none") require(c, 0, is_number, "numbers");
  if (c.shape(2) != c.shape(1)) throw Error("updates are ", c.in[2], " for indices ", c.in[1]);
  c.out = {c.in[0]};
}

void scatter_reference(const ReferenceContext& c) {
  const std::string& how = c.attrs.s("reduction");
  c.out[0] = c.in[0];
  for_each_element(c, [&](int64_t i, int64_t at) {
    const double u = c.in[2][i];
    double& y = c.out[0][at];
    if (how == "add") y += u;
    if (how == "mul") y *= u;
    if (how == "min") y = std::min(y, u);
    if (how == "max") y = std::max(y, u);
    if (how == "none") y = u;
  });
}

// With places that differ: of those named twice only one update counts.
std::vector<ValueId> scatter_gradient(GradientContext& c) {
  const std::string& how = c.node.attrs.s("reduction");
  if (how != "none" && how != "add") throw Error("reduction ", how, " is not differentiable");
  const Attrs axis{{"axis", c.node.attrs.i("axis")}};
  const ValueId dy = c.dy[0];
  const ValueId dupdates = c.wanted[2] ? c.g.add1("GatherElements", {dy, c.x(1)}, axis) : kNone;
  if (how == "add" || !c.wanted[0]) return {dy, kNone, dupdates};
  return {c.g.add1("ScatterElements", {dy, c.x(1), zeros_like(c.g, c.x(2))}, axis), kNone,
          dupdates};
}

ExampleInput at(Shape s, std::vector<double> v, DType t = DType::kI64) {
  return ExampleInput::given(t, std::move(s), std::move(v));
}

std::vector<Example> gather_examples() {
  const Attrs axis{{"axis", int64_t{1}}};
  return in_moved_dtypes({{{{2, 2}, at({2, 2}, {0, 0, 1, 0})}, axis},
                          {{{3, 3}, at({2, 3}, {1, 2, 0, -1, 0, 0}, DType::kI32)}},
                          {{{2, 3, 2}, at({1, 2, 1}, {2, 2})}, axis}},
                         [](DType t) {
                           return Example{{{t, {4, 3}}, at({2, 3}, {3, 0, 1, -4, 2, 2})}};
                         });
}

std::vector<Example> scatter_examples() {
  const Attrs axis{{"axis", int64_t{-1}}};
  std::vector<Example> list =
      in_moved_dtypes({{{{3, 3}, at({2, 3}, {1, 0, 2, 0, 2, 1}), {2, 3}}},
                       {{{2, 5}, at({2, 2}, {1, 3, -1, 0}, DType::kI32), {2, 2}}, axis},
                       {{{2, 3}, ExampleInput(DType::kI64, {0, 3}), {0, 3}}}},
                      [](DType t) {
                        return Example{{{t, {4, 2}}, at({1, 2}, {3, -4}), {t, {1, 2}}}};
                      });
  const ExampleInput twice = at({3}, {1, 3, 1});
  list.push_back({{{4}, twice, {3}}, {{"reduction", "add"}}});
  for (const char* how : {"none", "mul", "min", "max"}) {
    list.push_back(
        {.inputs = {{4}, twice, {3}}, .attrs = {{"reduction", how}}, .check_gradient = false});
  }
  return list;
}

}  // namespace

std::vector<OpDef> scatter_elements_ops() {
  const AttrSpec axis{"axis", AttrSpec::Kind::kInt, Attr(int64_t{0})};
  return {
      {.name = "GatherElements",
       .facts =
           {.onnx = 11, .kind = OpKind::kMove, .sign = Sign::kAsInputs, .rank = RankRule::kFirst},
       .min_inputs = 2,
       .max_inputs = 2,
       .attrs = {axis},
       .infer = gather_infer,
       .reference = gather_reference,
       .gradient = gather_gradient,
       .by_reference = true,
       .examples = gather_examples()},
      {.name = "ScatterElements",
       .facts = {.onnx = 11,
                 .onnx_later = {{.since = 18, .attribute = "reduction", .text = "min"},
                                {.since = 18, .attribute = "reduction", .text = "max"}},
                 .rank = RankRule::kFirst},
       .min_inputs = 3,
       .max_inputs = 3,
       .attrs = {axis, {"reduction", AttrSpec::Kind::kString, Attr("none")}},
       .infer = scatter_infer,
       .reference = scatter_reference,
       .gradient = scatter_gradient,
       .by_reference = true,
       .examples = scatter_examples()},
  };
}

}  // namespace ndtrain
