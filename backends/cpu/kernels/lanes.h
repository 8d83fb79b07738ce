// Sums along a row in a fixed order: kWidth running results, then a tree. The order depends on the
// row's length alone, so a row's bits do not depend on the batch or on threads.
#pragma once

#include "backends/cpu/kernels/elementwise.h"

namespace ndtrain::cpu {

inline constexpr int kWidth = 32;

// fold(...fold(start, term(0)), ..., term(n - 1)) in lanes; fold is associative, but for rounding.
template <typename W, typename Term, typename Fold>
W fold_row(int64_t n, W start, Term term, Fold fold) {
  if (n < kWidth) {
    W result = start;
    for (int64_t i = 0; i < n; ++i) result = fold(result, term(i));
    return result;
  }
  W lane[kWidth];
  for (int j = 0; j < kWidth; ++j) lane[j] = term(j);
  int64_t i = kWidth;
  for (; i + kWidth <= n; i += kWidth) {
    for (int j = 0; j < kWidth; ++j) lane[j] = fold(lane[j], term(i + j));
  }
  for (int j = 0; i + j < n; ++j) lane[j] = fold(lane[j], term(i + j));
  for (int half = kWidth / 2; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) lane[j] = fold(lane[j], lane[j + half]);
  }
  return fold(start, lane[0]);
}

template <typename W, typename Term>
W sum_row(int64_t n, Term term) {
  return fold_row(n, W{}, term, [](W a, W b) { return a + b; });
}

}  // namespace ndtrain::cpu
