// Affine quantisation: real = (quantised - zero point) * scale. Quotients and products of scales
// are f32, rounding is half to even, results saturate.
#pragma once

#include <cmath>
#include <limits>

#include "backends/cpu/kernels/elementwise.h"
#include "backends/cpu/kernels/numbers.h"

namespace ndtrain::cpu {

// x is real / scale. NaN gives the zero point.
template <typename Q>
Q quantized(float x, int32_t zero_point) {
  const float held = (x == x) ? x : 0.0f;
  const float y = std::nearbyint(held) + static_cast<float>(zero_point);
  constexpr float kLow = std::numeric_limits<Q>::min(), kHigh = std::numeric_limits<Q>::max();
  const float low = y < kLow ? kLow : y;
  return static_cast<Q>(static_cast<int32_t>(low > kHigh ? kHigh : low));
}

inline int32_t integer(const void* data, ndt_dtype t, int64_t i) {
  return for_int(t, "a zero point",
                 [&]<typename Q>() { return static_cast<int32_t>(as<Q>(data)[i]); });
}

// A port of scales or zero points: absent (0), one value, or one per index.
struct PerIndex {
  int port = -1;
  ndt_dtype dtype = NDT_ABSENT;
  int64_t n = 0;

  PerIndex() = default;
  PerIndex(const Node& node, int p) {
    if (p < 0 || !node.has(p)) return;
    port = p;
    dtype = node.in(p).dtype;
    n = count(node.in(p));
    if (n < 1) invalid("input ", p, " is empty");
  }
  int64_t at(int64_t i) const { return n == 1 ? 0 : i; }
  float scale(const void* const* in, int64_t i) const {
    return number<float>(in[port], dtype, at(i));
  }
  int32_t zero(const void* const* in, int64_t i) const {
    return port < 0 ? 0 : integer(in[port], dtype, at(i));
  }
};

// Calls f.template operator()<Q>() with int8_t or uint8_t.
template <typename F>
auto for_byte(ndt_dtype t, F f) {
  if (t == NDT_I8) return f.template operator()<int8_t>();
  if (t == NDT_U8) return f.template operator()<uint8_t>();
  unsupported("takes i8 or u8, not ", name_of(t));
}

}  // namespace ndtrain::cpu
