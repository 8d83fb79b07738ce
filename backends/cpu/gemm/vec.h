// The widest float vector of the instruction set this build is for. Operators come with the
// compiler.
#pragma once

#include <cstdint>

namespace ndtrain::cpu {

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
inline constexpr int kTileRows = 14;  // 28 sums + 2 columns + 1 row value of 32 registers
#elif defined(__AVX2__)
inline constexpr int kLanes = 8;
inline constexpr int kTileRows = 6;  // 12 sums + 2 + 1 of 16
#elif defined(__aarch64__)
inline constexpr int kLanes = 4;
inline constexpr int kTileRows = 12;
#else
inline constexpr int kLanes = 4;
inline constexpr int kTileRows = 4;
#endif
inline constexpr int kTileCols = 2 * kLanes;

// N floats, their indices for a shuffle, and floats at any address.
template <int N>
struct VecOf;
#define NDT_VEC_OF(N)                                                                           \
  template <>                                                                                   \
  struct VecOf<N> {                                                                             \
    typedef float Type __attribute__((vector_size(N * sizeof(float))));                         \
    typedef int32_t Index __attribute__((vector_size(N * sizeof(int32_t))));                    \
    typedef float Loose __attribute__((vector_size(N * sizeof(float)), aligned(4), may_alias)); \
  };
NDT_VEC_OF(2)
NDT_VEC_OF(4)
NDT_VEC_OF(8)
NDT_VEC_OF(16)
#undef NDT_VEC_OF

using Vec = VecOf<kLanes>::Type;
using LooseVec = VecOf<kLanes>::Loose;

inline Vec load(const float* p) { return *reinterpret_cast<const LooseVec*>(p); }
inline void store(float* p, Vec v) { *reinterpret_cast<LooseVec*>(p) = v; }
inline Vec splat(float x) { return x - Vec{}; }
inline Vec at_least(Vec v, Vec low) { return v < low ? low : v; }    // keeps NaN
inline Vec at_most(Vec v, Vec high) { return v > high ? high : v; }  // keeps NaN

// even[0], odd[0], even[1], odd[1], … to to[0, 2 * kLanes).
inline void store_interleaved(float* to, Vec even, Vec odd) {
  VecOf<kLanes>::Index low{}, high{};
  for (int i = 0; i < kLanes; ++i) {
    low[i] = i / 2 + i % 2 * kLanes;
    high[i] = low[i] + kLanes / 2;
  }
  store(to, __builtin_shuffle(even, odd, low));
  store(to + kLanes, __builtin_shuffle(even, odd, high));
}

}  // namespace ndtrain::cpu
