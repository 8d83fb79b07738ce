// Reductions: y = finish(fold of term(x)).
#include <cmath>
#include <limits>

#include "backends/cpu/kernels/by_way_of.h"
#include "backends/cpu/kernels/math.h"
#include "backends/cpu/kernels/reduce_loops.h"

namespace ndtrain::cpu {
namespace {

constexpr auto kAdd = [](auto a, auto b) { return a + b; };
constexpr auto kMul = [](auto a, auto b) { return a * b; };
// a stays if it is NaN.
constexpr auto kMax = [](auto a, auto b) { return (a >= b) | (a != a) ? a : b; };
constexpr auto kMin = [](auto a, auto b) { return (a <= b) | (a != a) ? a : b; };

constexpr auto kSame = [](auto x, auto) { return x; };
constexpr auto kAbs = [](auto x, auto) { return x < 0 ? -x : x; };
constexpr auto kSquare = [](auto x, auto) { return x * x; };

constexpr auto kPlain = [](auto y, int64_t) { return y; };
constexpr auto kMean = [](auto y, int64_t n) {
  if (std::is_integral_v<decltype(y)> && n == 0) return decltype(y){};
  return y / static_cast<decltype(y)>(n);
};
// Of integers too; the result is cut back to them.
constexpr auto kSqrt = [](auto y, int64_t) {
  if constexpr (std::is_integral_v<decltype(y)>) {
    return std::sqrt(static_cast<double>(y));
  } else {
    return std::sqrt(y);
  }
};
constexpr auto kLog = [](auto y, int64_t) {
  if constexpr (std::is_integral_v<decltype(y)>) {
    return std::log(static_cast<double>(y));
  } else {
    return math::log(y);
  }
};

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

template <Start S, auto Term, auto Fold, auto Finish>
std::unique_ptr<Kernel> numbers(const Node& node) {
  return for_wide_number(node, numbers<S, Term, Fold, Finish>,
                         [&]<typename T>() { return reduction<T, S, Term, Fold, Finish>(node); });
}

// An empty one is the type's own limit, so narrow integers go no wider; of bools, which are 0 and
// 1, a minimum is 1.
template <Start S, auto Fold>
std::unique_ptr<Kernel> extreme(const Node& node) {
  if (node.in(0).dtype == NDT_BOOL) {
    return reduction<uint8_t, S, kSame, Fold, [](auto y, int64_t) { return y != 0; }>(node);
  }
  return for_number(node.in(0).dtype, node.op(),
                    [&]<typename T>() { return reduction<T, S, kSame, Fold, kPlain>(node); });
}

// log sum exp(x) = top + log sum exp(x - top), the maximum first, so that exp does not overflow.
template <typename T>
std::unique_ptr<Kernel> log_sum_exp_of(const Node& node) {
  using F = std::conditional_t<std::is_integral_v<T>, double, wide_t<T>>;
  const ReduceLoops loops(node);
  auto k = kernel([loops](const void* const* in, void* const* out, void* workspace) {
    const T* x = as<T>(in[0]);
    F *partial = as<F>(workspace), *top = partial + loops.partials();
    constexpr F kLowest = -std::numeric_limits<F>::infinity();
    const auto as_float = [](auto v, F) { return static_cast<F>(v); };
    loops.fold_parts(x, static_cast<const F*>(nullptr), kLowest, as_float, kMax, partial);
    loops.join_parts(
        partial, kMax, [](int64_t, F y) { return std::isfinite(y) ? y : F(0); }, top);
    const auto term = [](auto v, F t) { return math::exp(static_cast<F>(v) - t); };
    loops.fold_parts(x, static_cast<const F*>(top), F(0), term, kAdd, partial);
    loops.join_parts(
        partial, kAdd, [top](int64_t o, F y) { return static_cast<T>(top[o] + math::log(y)); },
        as<T>(out[0]));
  });
  k->workspace_bytes = static_cast<size_t>(loops.partials() + loops.outputs()) * sizeof(F);
  return k;
}

std::unique_ptr<Kernel> log_sum_exp(const Node& node) {
  return for_wide_number(node, log_sum_exp, [&]<typename T>() { return log_sum_exp_of<T>(node); });
}

const Registered registered{
    {"ReduceSum", numbers<Start::kZero, kSame, kAdd, kPlain>},
    {"ReduceMean", numbers<Start::kZero, kSame, kAdd, kMean>},
    {"ReduceMax", extreme<Start::kLowest, kMax>},
    {"ReduceMin", extreme<Start::kHighest, kMin>},
    {"ReduceProd", numbers<Start::kOne, kSame, kMul, kPlain>},
    {"ReduceL1", numbers<Start::kZero, kAbs, kAdd, kPlain>, Trait::kPlain},
    {"ReduceL2", numbers<Start::kZero, kSquare, kAdd, kSqrt>},
    {"ReduceSumSquare", numbers<Start::kZero, kSquare, kAdd, kPlain>},
    {"ReduceLogSum", numbers<Start::kZero, kSame, kAdd, kLog>},
    {"ReduceLogSumExp", log_sum_exp, Trait::kPlain},
};

}  // namespace
}  // namespace ndtrain::cpu
