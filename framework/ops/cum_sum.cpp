// CumSum: y[.., k, ..] = x[.., 0, ..] + … + x[.., k, ..] along an axis; exclusive leaves the
// element itself out, reverse sums from the end. Its gradient sums the other way. CumProd: the same
// of products; the gradient of x[j] is the sum over the products that it is in of dy times the
// product of the others, where zeros may be among them.
#include <functional>
#include <utility>

#include "framework/ops/common.h"

namespace ndtrain {
namespace {

void infer(InferContext& c) {
  require(c, 0, is_wide, "a float dtype or integers of 32 or 64 bits");
  const Ints axis = c.ints(1);
  if (axis.size() != 1) throw Error("the axis is ", c.in[1], ", must be one number");
  c.shape(0).axis(axis[0], "axis");
  c.out = {c.in[0]};
}

template <typename F>
void cumulate(const ReferenceContext& c, double neutral, F with) {
  const Shape& x = c.shape(0);
  const int axis = x.axis(c.ints(1)[0], "axis");
  const int64_t n = x[axis], inner = x.count(axis + 1, x.rank());
  const bool exclusive = c.attrs.flag("exclusive"), reverse = c.attrs.flag("reverse");
  for (int64_t line = 0; line < x.count(0, axis) * inner; ++line) {
    const int64_t start = line / inner * n * inner + line % inner;
    double all = neutral;
    for (int64_t k = 0; k < n; ++k) {
      const int64_t at = start + (reverse ? n - 1 - k : k) * inner;
      const double next = with(all, c.in[0][at]);
      c.out[0][at] = exclusive ? all : next;
      all = next;
    }
  }
}

void sum(const ReferenceContext& c) { cumulate(c, 0, std::plus()); }
void product(const ReferenceContext& c) { cumulate(c, 1, std::multiplies()); }

std::vector<ValueId> gradient(GradientContext& c) {
  Attrs other = c.node.attrs;
  other.set("reverse", int64_t{other.flag("reverse") ? 0 : 1});
  return {c.g.add1("CumSum", {c.dy[0], c.x(1)}, other), kNone};
}

std::vector<ValueId> product_gradient(GradientContext& c) {
  return {c.g.add1("CumProdGrad", {c.dy[0], c.x(0), c.x(1)}, c.node.attrs), kNone};
}

// in: dy, x, axis.
void product_grad_infer(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  if (c.in[0] != c.in[1]) throw Error("dy is ", c.in[0], ", x ", c.in[1]);
  c.shape(1).axis(c.ints(2).at(0), "axis");
  c.out = {c.in[1]};
}

void product_grad(const ReferenceContext& c) {
  const Shape& x = c.shape(1);
  const int axis = x.axis(c.ints(2)[0], "axis");
  const int64_t n = x[axis], inner = x.count(axis + 1, x.rank());
  const int64_t out = c.attrs.flag("exclusive") ? 1 : 0;  // how many an element leaves out
  const bool reverse = c.attrs.flag("reverse");
  for (int64_t line = 0; line < x.count(0, axis) * inner; ++line) {
    const int64_t start = line / inner * n * inner + line % inner;
    const auto at = [&](int64_t k) { return start + (reverse ? n - 1 - k : k) * inner; };
    for (int64_t j = 0; j < n; ++j) {
      double others = 1;
      for (int64_t k = 0; k + out < n; ++k) {
        if (k != j) others *= c.in[1][at(k)];
        if (k >= j) c.out[0][at(j)] += c.in[0][at(k + out)] * others;
      }
    }
  }
}

int64_t terms(const Attrs&, std::span<const TensorType> in) {
  int64_t longest = 1;
  for (const int64_t d : in[0].shape.dims()) longest = std::max(longest, d);
  return longest;
}

std::vector<Example> examples() {
  using E = ExampleInput;
  const auto flags = [](const char* name) { return Attrs{{name, int64_t{1}}}; };
  const Attrs both = {{"exclusive", int64_t{1}}, {"reverse", int64_t{1}}};
  std::vector<Example> list = {{{{5}, E::scalar(0, DType::kI64)}},
                               {{{2, 3}, E::scalar(-1, DType::kI32)}, flags("exclusive")},
                               {{{2, 3}, E::scalar(0, DType::kI64)}, flags("reverse")},
                               {{{2, 3, 2}, E::ints({1})}, both},
                               {{{3, 50, 70}, E::ints({1})}},
                               {{{0, 3}, E::ints({1})}}};
  for (const DType t : {DType::kF64, DType::kF16, DType::kBF16, DType::kI32, DType::kI64,
                        DType::kU32, DType::kU64}) {
    list.push_back({{E::range({2, 3}, 0, 3, t), E::ints({1})}});
  }
  return list;
}

std::vector<Example> product_examples() {
  using E = ExampleInput;
  const Attrs both = {{"exclusive", int64_t{1}}, {"reverse", int64_t{1}}};
  return {{{{5}, E::scalar(0, DType::kI64)}},
          {{{2, 3}, E::scalar(-1, DType::kI32)}, {{"exclusive", int64_t{1}}}},
          {{{2, 3}, E::scalar(0, DType::kI64)}, {{"reverse", int64_t{1}}}},
          {{{2, 3, 2}, E::ints({1})}, both},
          {{E::given(DType::kF32, {2, 4}, {0.5, 0, 3, 2, 0, 2, 0, 1}), E::ints({1})}},
          {{{DType::kI32, {2, 3}}, E::ints({1})}}};
}

std::vector<Example> product_grad_examples() {
  std::vector<Example> list;
  for (const Example& e : product_examples()) {
    if (!is_float(e.inputs[0].type.dtype)) continue;
    list.push_back({{e.inputs[0].type.shape, e.inputs[0], e.inputs[1]}, e.attrs});
  }
  return list;
}

}  // namespace

std::vector<OpDef> cum_sum_ops() {
  using Kind = AttrSpec::Kind;
  const auto def = [](std::string_view name, int opset, auto reference, auto cases) {
    return OpDef{.name = name,
                 .facts = {.onnx = opset, .rank = RankRule::kFirst},
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .attrs = {{"exclusive", Kind::kInt, Attr(int64_t{0})},
                           {"reverse", Kind::kInt, Attr(int64_t{0})}},
                 .infer = infer,
                 .reference = reference,
                 .terms = terms,
                 .shape_inputs = 0b10,
                 .examples = std::move(cases)};
  };
  OpDef sums = def("CumSum", 11, sum, examples());
  sums.gradient = gradient;
  OpDef products = def("CumProd", 26, product, product_examples());
  products.gradient = product_gradient;
  products.by_reference = true;
  OpDef slopes = def("CumProdGrad", 0, product_grad, product_grad_examples());
  slopes.min_inputs = slopes.max_inputs = 3;
  slopes.infer = product_grad_infer;
  slopes.shape_inputs = 0b100;
  slopes.by_reference = true;
  return {std::move(sums), std::move(products), std::move(slopes)};
}

}  // namespace ndtrain
