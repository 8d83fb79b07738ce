// Functions of whole vectors of floats: those that the list calls hot. For the sources of kernels.
#pragma once

#include "backends/cuda/kernels/functions.h"
#include "backends/cuda/kernels/grid.h"
#include "backends/cuda/kernels/walk.h"

namespace ndtrain::cuda {

// A function, how many operands it has, and its attributes.
struct Numbers {
  Function function;
  int n;
  double a, b;
};

// result = f(v[0], …); f is hot.
template <int kSize>
NDT_DEVICE void apply(Numbers f, const float (&v)[kMostInputs][kSize], float (&result)[kSize]) {
  using namespace function;  // NOLINT(google-build-using-namespace): the list is written in them
  using W = float;
  const W a = static_cast<W>(f.a), b = static_cast<W>(f.b);
#define NUMBER(name, expression)
#define FLOAT(name, expression)
#define HOT_FLOAT(name, expression) HOT_NUMBER(name, expression)
#define HOT_NUMBER(name, expression)                                               \
  case Function::k##name:                                                          \
    for_each_lane<kSize>([&](int i) {                                              \
      [[maybe_unused]] const W p = v[0][i], q = v[1][i], r = v[2][i], s = v[3][i]; \
      result[i] = expression;                                                      \
    });                                                                            \
    break;
  switch (f.function) {
#include "backends/cuda/kernels/functions.inc"
    default:
      break;
  }
#undef HOT_NUMBER
#undef HOT_FLOAT
#undef FLOAT
#undef NUMBER
  (void)a, (void)b;
}

inline bool is_hot(Function f) {
#define NUMBER(name, expression)
#define FLOAT(name, expression)
#define HOT_FLOAT(name, expression) HOT_NUMBER(name, expression)
#define HOT_NUMBER(name, expression) \
  case Function::k##name:            \
    return true;
  switch (f) {
#include "backends/cuda/kernels/functions.inc"
    default:
      return false;
  }
#undef HOT_NUMBER
#undef HOT_FLOAT
#undef FLOAT
#undef NUMBER
}

}  // namespace ndtrain::cuda
