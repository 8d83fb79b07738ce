// A square of floats turned over in registers.
#pragma once

#include "backends/cpu/gemm/vec.h"

namespace ndtrain::cpu {

// The two blocks of Half x Half beside the diagonal of each square of twice that change places, and
// so on within the blocks.
template <int Half>
inline void swap_blocks(Vec* v) {
  VecOf<kLanes>::Index upper{}, lower{};
  for (int i = 0; i < kLanes; ++i) {
    upper[i] = i & Half ? i - Half + kLanes : i;
    lower[i] = i & Half ? i + kLanes : i + Half;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    if (i & Half) continue;
    const Vec a = v[i], b = v[i + Half];
    v[i] = __builtin_shuffle(a, b, upper);
    v[i + Half] = __builtin_shuffle(a, b, lower);
  }
  if constexpr (Half > 1) swap_blocks<Half / 2>(v);
}

// Lane c of v[r] and lane r of v[c] change places.
inline void transpose(Vec (&v)[kLanes]) { swap_blocks<kLanes / 2>(v); }

}  // namespace ndtrain::cpu
