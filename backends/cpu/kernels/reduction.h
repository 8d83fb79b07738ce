// A reduction: y = finish(fold of term(x)).
#pragma once

#include <limits>

#include "backends/cpu/kernels/reduce_loops.h"

namespace ndtrain::cpu {

inline constexpr auto kAdd = [](auto a, auto b) { return a + b; };
// a stays if it is NaN.
inline constexpr auto kMax = [](auto a, auto b) { return (a >= b) | (a != a) ? a : b; };

inline constexpr auto kSame = [](auto x, auto) { return x; };
inline constexpr auto kPlain = [](auto y, int64_t) { return y; };

enum class Start { kZero, kOne, kLowest, kHighest };

template <typename T>
wide_t<T> start_of(Start s) {
  using W = wide_t<T>;
  using Limits = std::numeric_limits<std::conditional_t<std::is_integral_v<T>, T, W>>;
  switch (s) {
    case Start::kLowest:
      return static_cast<W>(Limits::has_infinity ? -Limits::infinity() : Limits::lowest());
    case Start::kHighest:
      return static_cast<W>(Limits::has_infinity ? Limits::infinity() : Limits::max());
    default:
      return s == Start::kOne ? W(1) : W(0);
  }
}

template <typename T, Start S, auto Term, auto Fold, auto Finish>
std::unique_ptr<Kernel> reduction(const Node& node) {
  using W = wide_t<T>;
  const ReduceLoops loops(node);
  if (loops.outputs() != count(node.out())) invalid("the output has another size");
  auto k = kernel([loops](const void* const* in, void* const* out, void* workspace) {
    W* partial = as<W>(workspace);
    loops.fold_parts(as<T>(in[0]), static_cast<const W*>(nullptr), start_of<T>(S), Term, Fold,
                     partial);
    const int64_t n = loops.reduced();
    loops.join_parts(
        partial, Fold, [n](int64_t, W y) { return static_cast<T>(Finish(y, n)); }, as<T>(out[0]));
  });
  k->workspace_bytes = static_cast<size_t>(loops.partials()) * sizeof(W);
  return k;
}

}  // namespace ndtrain::cpu
