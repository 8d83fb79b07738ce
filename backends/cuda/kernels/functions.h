// The functions that are computed element by element, and what they are written with.
#pragma once

#include "backends/cuda/kernels/number.h"

namespace ndtrain::cuda {

enum class Function : uint8_t {
#define HOT_NUMBER(name, expression) k##name,
#define HOT_FLOAT(name, expression) k##name,
#define NUMBER(name, expression) k##name,
#define FLOAT(name, expression) k##name,
#include "backends/cuda/kernels/functions.inc"
#undef FLOAT
#undef NUMBER
#undef HOT_FLOAT
#undef HOT_NUMBER
};

namespace function {

template <typename W>
NDT_DEVICE bool below_zero(W x) {
  if constexpr (std::is_signed<W>::value) {
    return x < W(0);
  } else {
    return false;
  }
}

// The lowest integer has no negative; it wraps to itself.
template <typename W>
NDT_DEVICE W negative(W x) {
  if constexpr (std::is_integral<W>::value) {
    return static_cast<W>(uint64_t{0} - static_cast<uint64_t>(x));
  } else {
    return -x;
  }
}

// Signed sums and products may overflow: unsigned ones wrap and have the same bits.
template <typename W>
using Wrapping = std::conditional_t<std::is_integral<W>::value, uint64_t, W>;

template <typename W>
NDT_DEVICE W plus(W x, W y) {
  return static_cast<W>(static_cast<Wrapping<W>>(x) + static_cast<Wrapping<W>>(y));
}
template <typename W>
NDT_DEVICE W minus(W x, W y) {
  return static_cast<W>(static_cast<Wrapping<W>>(x) - static_cast<Wrapping<W>>(y));
}
template <typename W>
NDT_DEVICE W times(W x, W y) {
  return static_cast<W>(static_cast<Wrapping<W>>(x) * static_cast<Wrapping<W>>(y));
}

template <typename W>
NDT_DEVICE W quotient(W x, W y) {
  if constexpr (std::is_integral<W>::value) {
    if (y == 0) return 0;
    if (std::is_signed<W>::value && y == W(-1)) return negative(x);
  }
  return x / y;
}

template <typename W>
NDT_DEVICE W at_most(W x, W limit) {
  return x > limit ? limit : x;
}

template <typename W>
NDT_DEVICE W clip01(W x) {
  return at_most(x < W(0) ? W(0) : x, W(1));
}

// x stays if it is NaN.
template <typename W>
NDT_DEVICE W higher(W x, W y) {
  return x >= y || x != x ? x : y;
}
template <typename W>
NDT_DEVICE W lower(W x, W y) {
  return x <= y || x != x ? x : y;
}

template <typename W>
NDT_DEVICE W sum(W p, W q, W r, W s, int n) {
  W total = p;
  if (n > 1) total += q;
  if (n > 2) total += r;
  return n > 3 ? total + s : total;
}

template <typename W>
NDT_DEVICE W clamped(W x, W zero, W low, W high) {
  const W y = x + zero;
  return at_most(y < low ? low : y, high);
}

template <typename W>
NDT_DEVICE W sigmoid(W x) {
  return W(1) / (W(1) + std::exp(-x));
}

// log(1 + e^x) without overflow.
template <typename W>
NDT_DEVICE W softplus(W x) {
  return (x > W(0) ? x : W(0)) + std::log1p(std::exp(-std::fabs(x)));
}

template <typename W>
NDT_DEVICE W mish_slope(W x) {
  const W t = std::tanh(softplus(x));
  return t + x * sigmoid(x) * (W(1) - t * t);
}

constexpr double kSqrtHalf = 0.70710678118654752440, kDensity = 0.39894228040143267794,
                 kSqrtTwoOverPi = 0.79788456080286535588, kCubic = 0.044715;

template <typename W>
NDT_DEVICE W normal_cdf(W x) {
  return W(0.5) * (W(1) + std::erf(x * W(kSqrtHalf)));
}

template <typename W>
NDT_DEVICE W gelu_slope(W x) {
  return normal_cdf(x) + x * std::exp(x * x * W(-0.5)) * W(kDensity);
}

// The polynomial inside Gelu's tanh form.
template <typename W>
NDT_DEVICE W gelu_inner(W x) {
  return W(kSqrtTwoOverPi) * (x + W(kCubic) * x * x * x);
}

template <typename W>
NDT_DEVICE W gelu_tanh_slope(W x) {
  const W t = std::tanh(gelu_inner(x));
  const W slope = W(kSqrtTwoOverPi) * (W(1) + W(3 * kCubic) * x * x);
  return W(0.5) * (W(1) + t) + W(0.5) * x * (W(1) - t * t) * slope;
}

}  // namespace function
}  // namespace ndtrain::cuda
