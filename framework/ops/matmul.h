// NumPy's matmul: how two shapes multiply. Shared by MatMul and its integer forms.
#pragma once

#include "framework/ops/common.h"

namespace ndtrain {

struct MatMulShape {
  int64_t m = 1, n = 1, k = 1;
  Shape a_batch, b_batch, batch;  // the dims before the matrices, and what they broadcast to
  Shape output;
};

// A rank-1 input is a row (left) or a column (right), and its extent of 1 leaves the output again.
// Throws Error when the shapes do not multiply.
MatMulShape matmul_shape(const Shape& a, const Shape& b);

// Calls f(y, a, b, row, column), flat indices, for every product a * b that is part of y.
template <typename F>
void for_each_matmul_product(const MatMulShape& s, const F& f) {
  const Shape shapes[] = {s.a_batch, s.b_batch};
  for_each_broadcast(s.batch, shapes, [&](int64_t at, std::span<const int64_t> from) {
    const int64_t y = at * s.m * s.n, a = from[0] * s.m * s.k, b = from[1] * s.k * s.n;
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        for (int64_t l = 0; l < s.k; ++l) {
          f(y + i * s.n + j, a + i * s.k + l, b + l * s.n + j, i, j);
        }
      }
    }
  });
}

}  // namespace ndtrain
