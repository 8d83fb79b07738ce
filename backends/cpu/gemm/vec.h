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

typedef float Vec __attribute__((vector_size(kLanes * sizeof(float))));
typedef float LooseVec __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));

inline Vec load(const float* p) { return *reinterpret_cast<const LooseVec*>(p); }
inline void store(float* p, Vec v) { *reinterpret_cast<LooseVec*>(p) = v; }
inline Vec splat(float x) { return x - Vec{}; }
inline Vec at_least(Vec v, Vec low) { return v < low ? low : v; }    // keeps NaN
inline Vec at_most(Vec v, Vec high) { return v > high ? high : v; }  // keeps NaN

}  // namespace ndtrain::cpu
