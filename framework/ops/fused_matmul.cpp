// FusedMatMul: y = f(a B + bias) with B = b or b^T, the bias on every row, and f the elementwise
// `steps`; what a pass makes of a product, its bias and its activation for devices that have them
// as one kernel.
//   a [..., K], b [K, N] or, with transB, [N, K], bias N values along the last dim
//   y [..., N]
#include "framework/ops/common.h"
#include "framework/ops/steps.h"

namespace ndtrain {
namespace {

int64_t columns(const Attrs& attrs, const Shape& b) { return b[attrs.flag("transB") ? 0 : 1]; }

void infer(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  for (size_t i = 1; i < c.in.size(); ++i) require_same_dtype(c, 0, i);
  const Shape &a = c.shape(0), &b = c.shape(1);
  if (a.rank() < 2 || b.rank() != 2 || a[-1] != b[c.attrs.flag("transB") ? 1 : 0]) {
    throw Error("a ", a, " and b ", b, c.attrs.flag("transB") ? "^T" : "", " do not multiply");
  }
  const int64_t n = columns(c.attrs, b);
  if (c.has(2) && (c.shape(2).rank() == 0 || c.shape(2).count() != n || c.shape(2)[-1] != n)) {
    throw Error("a bias ", c.shape(2), " for ", n, " columns");
  }
  std::vector<int64_t> dims = a.dims();
  dims.back() = n;
  c.out.push_back({c.in[0].dtype, Shape(std::move(dims))});
  check_steps(c.attrs, c.out[0]);
}

void reference(const ReferenceContext& c) {
  const bool transposed = c.attrs.flag("transB");
  const int64_t n = columns(c.attrs, c.shape(1)), k = c.shape(0)[-1];
  for (int64_t i = 0; i < c.out_shape().count(); ++i) {
    const int64_t row = i / n, column = i % n;
    double sum = c.has(2) ? c.in[2][column] : 0;
    for (int64_t l = 0; l < k; ++l) {
      sum += c.in[0][row * k + l] * c.in[1][transposed ? column * k + l : l * n + column];
    }
    c.out[0][i] = sum;
  }
  apply_steps(c.attrs, c.out_types[0], c.out[0]);
}

int64_t terms(const Attrs&, std::span<const TensorType> in) { return in[0].shape[-1]; }

std::vector<Example> examples() {
  const Attrs relu{{"steps", "Relu x0"}}, gelu{{"steps", "Gelu x0 approximate=none"}},
      tanh{{"steps", "Gelu x0 approximate=tanh"}};
  Attrs transposed = relu;
  transposed.set("transB", 1);
  const DType half = DType::kF16, brain = DType::kBF16;
  return {
      {{{3, 4}, {4, 5}, {5}}},
      {{{2, 3, 4}, {4, 5}, {1, 1, 5}}},
      {{{3, 4}, {4, 5}}, relu},
      {{{17, 70}, {33, 70}, {33}}, transposed},
      {{{2, 5, 8}, {8, 12}, {12}}, relu},
      {{{3, 4}, {4, 5}, {5}}, gelu},
      {{{3, 4}, {4, 5}, {5}}, tanh},
      {{{half, {2, 5, 8}}, {half, {8, 12}}, {half, {12}}}, relu},
      {{{half, {2, 5, 8}}, {half, {8, 12}}, {half, {12}}}, tanh},
      {{{brain, {3, 40}}, {brain, {20, 40}}, {brain, {20}}}, transposed},
      {{{brain, {3, 40}}, {brain, {40, 20}}, {brain, {20}}}, tanh},
      {{{half, {6, 8}}, {half, {8, 16}}}, tanh},
  };
}

}  // namespace

std::vector<OpDef> fused_matmul_ops() {
  return {{.name = "FusedMatMul",
           .facts = {.kind = OpKind::kProduct},
           .min_inputs = 2,
           .max_inputs = 3,
           .attrs = {{"transB", AttrSpec::Kind::kInt, Attr(int64_t{0})}, steps_attr()},
           .infer = infer,
           .reference = reference,
           .terms = terms,
           .optional_fusion = always,
           .examples = examples()}};
}

}  // namespace ndtrain
