// Functions of one number that the compiler vectorises: no branches, no tables, no calls. For f32
// within 4 units in the last place (erf and tanh: of 1); f64 takes the C library's. The polynomials
// are minimax fits (Lawson's iteration over Chebyshev nodes) with relative error below 2^-25.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace ndtrain::cpu::math {

// c0 + c1 x + c2 x^2 + ...
inline float polynomial(float, float c) { return c; }
template <typename... C>
inline float polynomial(float x, float c0, C... c) {
  return c0 + x * polynomial(x, c...);
}

inline float power_of_two(uint32_t n) { return std::bit_cast<float>((n + 127u) << 23); }

// e^x = 2^n (1 + q): n and q for x in [-105, 90]; n in two's complement.
struct ExpParts {
  uint32_t n;
  float q;
};

inline ExpParts exp_parts(float x) {
  constexpr float kRound = 12582912;  // 1.5 * 2^23: its sum with a small number is an integer
  const float shifted = x * 1.44269504f + kRound;
  const float n = shifted - kRound;
  float r = x - n * 0.693359375f;  // ln 2 in two parts: the first product is exact
  r = r - n * -2.12194440e-4f;
  const float rest = polynomial(r, 0.5f, 0.166666672f, 0.0416662693f, 0.00833326578f,
                                0.00139460841f, 0.000199178292f);
  return {std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRound), r + r * r * rest};
}

inline float within(float x, float low, float high) {  // NaN stays
  x = x < low ? low : x;
  return x > high ? high : x;
}

inline float exp(float x) {
  const ExpParts e = exp_parts(within(x, -105, 90));
  // 2^n may be no normal number: in two steps.
  const uint32_t half = static_cast<uint32_t>(static_cast<int32_t>(e.n) >> 1);
  return (1 + e.q) * power_of_two(half) * power_of_two(e.n - half);
}

// For x <= 64.
inline float expm1(float x) {
  const ExpParts e = exp_parts(within(x, -60, 64));
  const float scale = power_of_two(e.n);
  return scale * e.q + (scale - 1);
}

// 2 atanh(s) for |s| <= 1/3.
inline float twice_atanh(float s) {
  const float z = s * s;
  const float rest =
      polynomial(z, 0.333333343f, 0.199998483f, 0.14296405f, 0.10850022f, 0.116268866f);
  return 2 * s + 2 * s * (z * rest);
}

inline float log(float x) {
  const bool tiny = x < std::numeric_limits<float>::min();
  const uint32_t bits = std::bit_cast<uint32_t>(tiny ? x * 0x1p23f : x);
  const int32_t n = static_cast<int32_t>(bits - 0x3f3504f3u) >> 23;  // m in [sqrt(1/2), sqrt(2))
  const float m = std::bit_cast<float>(bits - (static_cast<uint32_t>(n) << 23));
  const float e = static_cast<float>(n) - (tiny ? 23.0f : 0.0f);
  const float y = e * 0.693359375f + (twice_atanh((m - 1) / (m + 1)) + e * -2.12194440e-4f);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float special = x == 0 ? -kInfinity : (x > 0 ? x : std::numeric_limits<float>::quiet_NaN());
  return x > 0 && x < kInfinity ? y : special;
}

// For x in [0, 1].
inline float log1p(float x) { return twice_atanh(x / (2 + x)); }

inline float with_sign_of(float magnitude, float x) { return x < 0 ? -magnitude : magnitude; }

inline float erf(float x) {
  const float t = std::abs(x), z = x * x;
  const float small =
      x + x * polynomial(z, 0.128379166f, -0.376126319f, 0.112836726f, -0.0268581044f,
                         0.00519779697f, -0.00081059651f, 8.21542344e-05f);
  // Beyond, erf = 1 - e^-(t + p(t)) up to 4, where it is 1.
  const float c = t > 4 ? 4 : t;
  const float p = polynomial(c, -0.00018344415f, 0.129556835f, 0.633262634f, 0.10837248f,
                             -0.025178967f, 0.00419361098f, -0.00043910637f, 2.14961128e-05f);
  const float large = with_sign_of(1 - exp(-(c + p)), x);
  return t < 0.95f ? small : large;
}

inline float tanh(float x) {
  const float t = std::abs(x), z = x * x;
  const float small = x + x * (z * polynomial(z, -0.333332837f, 0.133314908f, -0.0537434965f,
                                              0.0206505787f, -0.00571703678f));
  const float large = with_sign_of(1 - 2 / (exp(2 * t) + 1), x);
  return t < 0.625f ? small : large;
}

inline double exp(double x) { return std::exp(x); }
inline double expm1(double x) { return std::expm1(x); }
inline double log(double x) { return std::log(x); }
inline double log1p(double x) { return std::log1p(x); }
inline double erf(double x) { return std::erf(x); }
inline double tanh(double x) { return std::tanh(x); }

template <typename W>
W sigmoid(W x) {
  return 1 / (1 + exp(-x));
}

// log(1 + e^x) without overflow.
template <typename W>
W softplus(W x) {
  return (x > 0 ? x : W(0)) + log1p(exp(-std::abs(x)));
}

}  // namespace ndtrain::cpu::math
