// Gemm: y = alpha * A B + beta * c with A = a or a^T, B = b or b^T, and c broadcast to y (ONNX
// Gemm).
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

struct Product {
  int64_t m, n, k;
  // a[i, l] is at i * a_row + l * a_col, b[l, j] at l * b_row + j * b_col.
  int64_t a_row, a_col, b_row, b_col;
};

Product product(const Attrs& attrs, const Shape& a, const Shape& b) {
  if (a.rank() != 2 || b.rank() != 2) throw Error("inputs ", a, " and ", b, " are not matrices");
  const bool ta = attrs.flag("transA"), tb = attrs.flag("transB");
  Product p{.m = a[ta], .n = b[!tb], .k = a[!ta], .a_row = 1, .a_col = 1, .b_row = 1, .b_col = 1};
  if (b[tb] != p.k) {
    throw Error("a ", a, ta ? "^T" : "", " and b ", b, tb ? "^T" : "",
                " do not multiply: inner extents ", p.k, " and ", b[tb]);
  }
  (ta ? p.a_col : p.a_row) = a[1];
  (tb ? p.b_col : p.b_row) = b[1];
  return p;
}

void infer(InferContext& c) {
  require(c, 0, is_wide, "a float dtype or integers of 32 or 64 bits");
  for (size_t i = 1; i < c.in.size(); ++i) require_same_dtype(c, 0, i);
  const Product p = product(c.attrs, c.shape(0), c.shape(1));
  const Shape y{p.m, p.n};
  if (c.has(2) && (c.shape(2).rank() > 2 || broadcast(y, c.shape(2), "c") != y)) {
    throw Error("c ", c.shape(2), " does not broadcast to the product ", y);
  }
  c.out.push_back({c.in[0].dtype, y});
}

void reference(const ReferenceContext& c) {
  const Product p = product(c.attrs, c.shape(0), c.shape(1));
  const double alpha = c.attrs.f("alpha"), beta = c.attrs.f("beta");
  const std::vector<double>&a = c.in[0], &b = c.in[1];
  if (c.has(2)) {
    const Shape shapes[] = {c.shape(2)};
    for_each_broadcast(c.out_shape(), shapes, [&](int64_t i, std::span<const int64_t> at) {
      c.out[0][i] = beta * c.in[2][at[0]];
    });
  }
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < p.k; ++l) {
        sum += a[i * p.a_row + l * p.a_col] * b[l * p.b_row + j * p.b_col];
      }
      c.out[0][i * p.n + j] += alpha * sum;
    }
  }
}

// dA = alpha dY B^T and dB = alpha A^T dY; of a transposed input, the transpose of that.
std::vector<ValueId> gradient(GradientContext& c) {
  const Attrs& attrs = c.node.attrs;
  const ValueId a = c.x(0), b = c.x(1), dy = c.dy[0];
  const bool ta = attrs.flag("transA"), tb = attrs.flag("transB");
  const double alpha = attrs.f("alpha"), beta = attrs.f("beta");
  const auto gemm = [&](ValueId l, ValueId r, bool tl, bool tr) {
    return c.g.add1("Gemm", {l, r}, {{"alpha", alpha}, {"transA", tl}, {"transB", tr}});
  };
  std::vector<ValueId> grads(c.node.inputs.size(), kNone);
  if (c.wanted[0]) grads[0] = ta ? gemm(b, dy, tb, true) : gemm(dy, b, false, !tb);
  if (c.wanted[1]) grads[1] = tb ? gemm(dy, a, true, ta) : gemm(a, dy, !ta, false);
  if (c.has(2) && c.wanted[2]) {
    const ValueId scaled = beta == 1 ? dy : c.g.add1("Mul", {dy, scalar_like(c.g, beta, dy)});
    grads[2] = unbroadcast(c.g, scaled, Shape(c.shape(c.x(2))));
  }
  return grads;
}

int64_t terms(const Attrs& a, std::span<const TensorType> in) {
  return product(a, in[0].shape, in[1].shape).k;
}

std::vector<Example> examples() {
  return {
      {{{3, 4}, {4, 5}}},
      {{{3, 4}, {4, 5}, {5}}, {{"alpha", 0.5}, {"beta", 2.0}}},
      {{{4, 3}, {4, 5}, {3, 1}}, {{"transA", 1}}},
      {{{3, 4}, {5, 4}, {5}}, {{"transB", 1}}},
      {{{4, 3}, {5, 4}, {3, 5}}, {{"transA", 1}, {"transB", 1}, {"alpha", 0.25}, {"beta", 0.5}}},
      {{{3, 4}, {4, 5}, ExampleInput(Shape{})}},
      {{{3, 4}, {4, 5}, {1, 5}}},
      {{{1, 16}, {10, 16}, {10}}, {{"transB", 1}}},
      {{{17, 70}, {33, 70}, {33}}, {{"transB", 1}}},
      {{{2, 0}, {0, 3}, {3}}},
      {{{DType::kF64, {3, 4}}, {DType::kF64, {4, 2}}, {DType::kF64, {2}}}},
      {.inputs = {{DType::kF16, {3, 4}}, {DType::kF16, {4, 2}}, {DType::kF16, {2}}},
       .check_gradient = false},
      {.inputs = {{DType::kBF16, {3, 40}}, {DType::kBF16, {20, 40}}, {DType::kBF16, {20}}},
       .attrs = {{"transB", 1}},
       .check_gradient = false},
      {{ExampleInput::range({3, 4}, -9, 9, DType::kI32),
        ExampleInput::range({4, 2}, -9, 9, DType::kI32),
        ExampleInput::range({2}, -9, 9, DType::kI32)}},
  };
}

}  // namespace

std::vector<OpDef> gemm_ops() {
  using Kind = AttrSpec::Kind;
  return {{.name = "Gemm",
           .facts = {.onnx = 1,
                     .kind = OpKind::kProduct,
                     .rounding = Rounding::kRounds,
                     .rank = RankRule::kTwo},
           .min_inputs = 2,
           .max_inputs = 3,
           .attrs = {{"alpha", Kind::kFloat, Attr(1.0)},
                     {"beta", Kind::kFloat, Attr(1.0)},
                     {"transA", Kind::kInt, Attr(int64_t{0})},
                     {"transB", Kind::kInt, Attr(int64_t{0})}},
           .infer = infer,
           .reference = reference,
           .gradient = gradient,
           .terms = terms,
           .examples = examples()}};
}

}  // namespace ndtrain
