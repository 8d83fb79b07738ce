// Loops over tensors of one shape: y[i] = f(x[i], ...). An element's bits depend on its operands
// alone, never on where it stands; y may lie over any x of the same element size.
#pragma once

#include "backends/cpu/kernels/kernel.h"

namespace ndtrain::cpu {

// Fewer elements are not worth a second thread.
inline constexpr int64_t kElementGrain = 2 * kGrain;

template <typename T>
wide_t<T> widen(T x) {
  return static_cast<wide_t<T>>(x);
}

// Signed sums and products may overflow: unsigned ones wrap and have the same bits.
template <auto F>
inline constexpr auto kWrapping = [](auto a, auto b) {
  using W = decltype(a);
  if constexpr (std::is_same_v<W, int64_t>) {
    return static_cast<W>(F(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
  } else {
    return F(a, b);
  }
};

// y = f(x), computed in wide_t<X>.
template <typename X, typename Y, typename F>
std::unique_ptr<Kernel> map1(const Node& node, F f) {
  const int64_t n = count(node.out());
  auto k = kernel([n, f](const void* const* in, void* const* out, void*) {
    const X* x = as<X>(in[0]);
    Y* y = as<Y>(out[0]);
    parallel_for(n, kElementGrain, [=](int64_t begin, int64_t end) {
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) y[i] = static_cast<Y>(f(widen(x[i])));
    });
  });
  k->in_place_inputs = sizeof(X) == sizeof(Y) ? 1 : 0;
  return k;
}

// z = f(x, y), all of one shape and dtype.
template <typename T, typename F>
std::unique_ptr<Kernel> map2(const Node& node, F f) {
  const int64_t n = count(node.out());
  for (const int i : {0, 1}) {
    if (count(node.in(i)) != n) invalid("input ", i, " has another shape than the output");
  }
  auto k = kernel([n, f](const void* const* in, void* const* out, void*) {
    const T *x = as<T>(in[0]), *y = as<T>(in[1]);
    T* z = as<T>(out[0]);
    parallel_for(n, kElementGrain, [=](int64_t begin, int64_t end) {
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) z[i] = static_cast<T>(f(widen(x[i]), widen(y[i])));
    });
  });
  k->in_place_inputs = 0b11;
  return k;
}

// Calls f.template operator()<Word>() with an unsigned integer of that many bytes: for kernels that
// move elements and do not look at them.
template <typename F>
auto for_word(size_t bytes, F f) {
  switch (bytes) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    case 8:
      return f.template operator()<uint64_t>();
    default:
      unsupported("elements of ", bytes, " bytes");
  }
}

}  // namespace ndtrain::cpu
