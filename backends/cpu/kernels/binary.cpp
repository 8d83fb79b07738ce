// Arithmetic on two tensors with broadcasting. Integers wrap; division by zero gives 0.
#include <cmath>

#include "backends/cpu/kernels/broadcast.h"
#include "backends/cpu/kernels/by_way_of.h"

namespace ndtrain::cpu {
namespace {

template <auto F>
std::unique_ptr<Kernel> numbers(const Node& node) {
  return for_wide_number(node, numbers<F>, [&]<typename T>() { return broadcast2<T, T>(node, F); });
}

constexpr auto kDivide = [](auto a, auto b) {
  using W = decltype(a);
  if constexpr (std::is_same_v<W, int64_t>) {
    if (b == -1) return static_cast<W>(-static_cast<uint64_t>(a));  // INT64_MIN / -1 traps
  }
  if constexpr (std::is_integral_v<W>) {
    return b == 0 ? W{} : static_cast<W>(a / b);
  } else {
    return a / b;
  }
};

// A result no integer of the base's type can hold saturates at 64 bits and then wraps, as the
// definition has it.
template <typename T>
T from_power(double y) {
  if constexpr (std::is_integral_v<T>) {
    if (!(y > -0x1p63)) return y != y ? T{} : static_cast<T>(std::numeric_limits<T>::min());
    if (y < 0x1p63) return static_cast<T>(static_cast<int64_t>(y));
    if (std::is_signed_v<T> || y >= 0x1p64) return std::numeric_limits<T>::max();
    return static_cast<T>(static_cast<uint64_t>(y));
  } else {
    return static_cast<T>(static_cast<wide_t<T>>(y));
  }
}

template <typename T, typename F>
void for_each(const T* x, T* z, int64_t n, F f) {
  parallel_for(n, kElementGrain, [=](int64_t begin, int64_t end) {
#pragma GCC ivdep
    for (int64_t i = begin; i < end; ++i) z[i] = static_cast<T>(f(widen(x[i])));
  });
}

// The common exponents, when one number is the exponent of a whole tensor of floats; false for any
// other. That number is read at run, so that it does not matter whether it was known before.
template <typename T>
bool pow_by_one(const T* x, double e, T* z, int64_t n) {
  using W = wide_t<T>;
  if (e == 1) {
    for_each(x, z, n, [](W v) { return v; });
  } else if (e == 2) {
    for_each(x, z, n, [](W v) { return v * v; });
  } else if (e == 3) {
    for_each(x, z, n, [](W v) { return v * v * v; });
  } else if (e == -1) {
    for_each(x, z, n, [](W v) { return 1 / v; });
  } else if (e == 0.5) {
    // The power of -infinity is +infinity, that of -0 is +0.
    for_each(x, z, n, [](W v) { return std::isinf(v) ? std::abs(v) : std::sqrt(v + W(0)); });
  } else {
    return false;
  }
  return true;
}

template <typename X, typename E>
void pow_rows(const BroadcastRows& rows, const X* x, const E* y, X* z) {
  using W = std::conditional_t<std::is_same_v<wide_t<X>, float>, E, double>;
  const int64_t dx = rows.advances(0), dy = rows.advances(1);
  parallel_for(rows.count(), kGrain / 8, [&](int64_t begin, int64_t end) {
    rows.for_each_row(begin, end, [=](int64_t to, const int64_t* from, int64_t n) {
      const X* a = x + from[0];
      const E* b = y + from[1];
      for (int64_t i = 0; i < n; ++i) {
        const W base = static_cast<W>(widen(a[i * dx])), e = static_cast<W>(b[i * dy]);
        z[to + i] = from_power<X>(static_cast<double>(std::pow(base, e)));
      }
    });
  });
}

// Exponents as numbers of one type E, converted into the workspace where they are of another, so
// that not every type of base meets every type of exponent.
template <typename E>
const E* exponents(ndt_dtype t, const void* y, int64_t n, void* workspace) {
  if (t == (sizeof(E) == 4 ? NDT_F32 : NDT_F64)) return as<E>(y);
  E* wide = as<E>(workspace);
  for_number(t, "Pow", [&]<typename Y>() {
    for (int64_t i = 0; i < n; ++i) wide[i] = static_cast<E>(widen(as<Y>(y)[i]));
  });
  return wide;
}

// f32 to the power of f32 is done in f32, anything with integers or f64 in double.
template <typename X, typename E>
std::unique_ptr<Kernel> pow_of(const Node& node) {
  const ndt_tensor_type types[] = {node.in(0), node.in(1)};
  const BroadcastRows rows(node.out(), types);
  const ndt_dtype t = types[1].dtype;
  const int64_t n = count(types[1]);
  const bool by_one = n == 1 && !std::is_integral_v<X>;
  auto k = kernel([rows, by_one, t, n](const void* const* in, void* const* out, void* workspace) {
    const X* x = as<X>(in[0]);
    const E* y = exponents<E>(t, in[1], n, workspace);
    X* z = as<X>(out[0]);
    if constexpr (!std::is_integral_v<X>) {
      if (by_one && pow_by_one(x, static_cast<double>(*y), z, rows.count())) return;
    }
    pow_rows(rows, x, y, z);
  });
  k->in_place_inputs = rows.whole_inputs() & (size_of(t) == int64_t{sizeof(X)} ? 0b11 : 0b01);
  k->workspace_bytes = static_cast<size_t>(n) * sizeof(E);
  return k;
}

std::unique_ptr<Kernel> pow_kernel(const Node& node) {
  return for_number(node.in(0).dtype, "Pow", [&]<typename X>() {
    const ndt_dtype e = node.in(1).dtype;
    return e == NDT_F32 || is_half(e) ? pow_of<X, float>(node) : pow_of<X, double>(node);
  });
}

const Registered registered{
    {"Add", numbers<kWrapping<[](auto a, auto b) { return a + b; }>>},
    {"Sub", numbers<kWrapping<[](auto a, auto b) { return a - b; }>>},
    {"Mul", numbers<kWrapping<[](auto a, auto b) { return a * b; }>>},
    {"Div", numbers<kDivide>},
    {"PRelu", numbers<[](auto x, auto slope) { return x < 0 ? slope * x : x; }>},
    {"Pow", pow_kernel},
};

}  // namespace
}  // namespace ndtrain::cpu
