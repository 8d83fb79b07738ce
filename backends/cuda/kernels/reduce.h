// Sums and other folds of the elements of x that belong to each element of the output. Their order
// depends on how many they are and how they lie, not on how many outputs there are.
#pragma once

#include "backends/cuda/kernels/walk.h"

namespace ndtrain::cuda {

enum class Fold : uint8_t { kAdd, kMul, kMax, kMin, kMaxNumber, kMinNumber };  // Number: not NaN
enum class Term : uint8_t { kSame, kAbs, kSquare, kExp };                      // kExp: of x - top
enum class Finish : uint8_t { kPlain, kMean, kSqrt, kLog, kFiniteOrZero, kLogPlusTop };

// What folding nothing gives, in each class.
struct Start {
  double floating = 0;
  int64_t integer = 0;
  uint64_t natural = 0;
};

struct Reduction {
  Fold fold = Fold::kAdd;
  Term term = Term::kSame;
  Finish finish = Finish::kPlain;
  Class computed = Class::kFloat;
  Start start;
  Walk kept, folded;  // outputs, and elements of x for each; both say where x lies in in[0]
  ndt_dtype in = NDT_F32, out = NDT_F32;

  // Bytes that `partial` points to.
  size_t workspace() const;
  // `tops`: for each output, in the order of `kept`, in the type computed in; or null.
  void run(const void* x, const void* tops, void* partial, void* y, cudaStream_t stream) const;
};

// y[…] is the index along an axis, of `n` elements `step` apart, of the extreme; NaN is never
// better than what came before.
struct ArgExtreme {
  Walk lines;
  int64_t n = 1, step = 1;
  bool want_max = true, last = false;
  Class computed = Class::kFloat;
  ndt_dtype in = NDT_F32;

  void run(const void* x, int64_t* y, cudaStream_t stream) const;
};

}  // namespace ndtrain::cuda
