// Det: the determinant of the last two dims. Its gradient is dy times the cofactors, which a
// singular matrix has too.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

void det_infer(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  const Shape& x = c.shape(0);
  if (x.rank() < 2 || x[-1] != x[-2]) throw Error("input ", x, " has no square matrices");
  c.out = {{c.in[0].dtype, Shape(Ints(x.dims().begin(), x.dims().end() - 2))}};
}

// By elimination, the largest element of a column first.
double determinant(std::vector<double> m, size_t n) {
  double det = 1;
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t r = k + 1; r < n; ++r) {
      if (std::abs(m[r * n + k]) > std::abs(m[pivot * n + k])) pivot = r;
    }
    if (m[pivot * n + k] == 0) return 0;
    if (pivot != k) {
      std::swap_ranges(m.begin() + static_cast<ptrdiff_t>(k * n),
                       m.begin() + static_cast<ptrdiff_t>((k + 1) * n),
                       m.begin() + static_cast<ptrdiff_t>(pivot * n));
      det = -det;
    }
    det *= m[k * n + k];
    for (size_t r = k + 1; r < n; ++r) {
      const double factor = m[r * n + k] / m[k * n + k];
      for (size_t j = k; j < n; ++j) m[r * n + j] -= factor * m[k * n + j];
    }
  }
  return det;
}

void det_reference(const ReferenceContext& c) {
  const auto n = static_cast<size_t>(c.shape(0)[-1]);
  for (size_t i = 0; i < c.out[0].size(); ++i) {
    const auto from = c.in[0].begin() + static_cast<ptrdiff_t>(i * n * n);
    c.out[0][i] = determinant({from, from + static_cast<ptrdiff_t>(n * n)}, n);
  }
}

std::vector<ValueId> det_gradient(GradientContext& c) {
  return {c.g.add1("DetGrad", {c.dy[0], c.x(0)})};
}

// in: dy, x.
void det_grad_infer(InferContext& c) {
  require(c, 1, is_float, "a float dtype");
  require_same_dtype(c, 0, 1);
  const Shape& x = c.shape(1);
  if (x.rank() != c.shape(0).rank() + 2) throw Error("dy is ", c.in[0], " of ", c.in[1]);
  c.out = {c.in[1]};
}

// The determinant without a row and a column, of the sign of their sum.
double cofactor(const double* m, size_t n, size_t row, size_t column) {
  std::vector<double> minor;
  for (size_t i = 0; i < n * n; ++i) {
    if (i / n != row && i % n != column) minor.push_back(m[i]);
  }
  return ((row + column) % 2 == 0 ? 1 : -1) * determinant(std::move(minor), n - 1);
}

void det_grad_reference(const ReferenceContext& c) {
  const auto n = static_cast<size_t>(c.shape(1)[-1]);
  for (size_t i = 0; i < c.in[1].size(); ++i) {
    const size_t matrix = i / (n * n), at = i % (n * n);
    c.out[0][i] = c.in[0][matrix] * cofactor(c.in[1].data() + matrix * n * n, n, at / n, at % n);
  }
}

}  // namespace

std::vector<OpDef> det_ops() {
  return {{.name = "Det",
           .facts = {.onnx = 11, .onnx_later = kBf16Since22},
           .infer = det_infer,
           .reference = det_reference,
           .gradient = det_gradient,
           .by_reference = true,
           .examples = {{{{3, 3}}},
                        {{{2, 2, 4, 4}}},
                        {{ExampleInput::given(DType::kF32, {2, 2}, {1, 2, 2, 4})}},
                        {{{DType::kF64, {1, 1}}}}}},
          {.name = "DetGrad",
           .min_inputs = 2,
           .max_inputs = 2,
           .infer = det_grad_infer,
           .reference = det_grad_reference,
           .by_reference = true,
           .examples = {{{Shape{}, {3, 3}}},
                        {{{2, 2}, {2, 2, 4, 4}}},
                        {{{DType::kF64, Shape{}}, {DType::kF64, {1, 1}}}}}}};
}

}  // namespace ndtrain
