// Reductions of numbers: sums, products and what is made of them.
#include <cmath>

#include "backends/cpu/kernels/by_way_of.h"
#include "backends/cpu/kernels/math.h"
#include "backends/cpu/kernels/reduction.h"

namespace ndtrain::cpu {
namespace {

constexpr auto kMul = [](auto a, auto b) { return a * b; };
constexpr auto kAbs = [](auto x, auto) { return x < 0 ? -x : x; };
constexpr auto kSquare = [](auto x, auto) { return x * x; };

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

template <Start S, auto Term, auto Fold, auto Finish>
std::unique_ptr<Kernel> numbers(const Node& node) {
  return for_wide_number(node, numbers<S, Term, Fold, Finish>,
                         [&]<typename T>() { return reduction<T, S, Term, Fold, Finish>(node); });
}

const Registered registered{
    {"ReduceSum", numbers<Start::kZero, kSame, kAdd, kPlain>},
    {"ReduceMean", numbers<Start::kZero, kSame, kAdd, kMean>},
    {"ReduceProd", numbers<Start::kOne, kSame, kMul, kPlain>},
    {"ReduceL1", numbers<Start::kZero, kAbs, kAdd, kPlain>, Trait::kPlain},
    {"ReduceL2", numbers<Start::kZero, kSquare, kAdd, kSqrt>},
    {"ReduceSumSquare", numbers<Start::kZero, kSquare, kAdd, kPlain>},
    {"ReduceLogSum", numbers<Start::kZero, kSame, kAdd, kLog>},
};

}  // namespace
}  // namespace ndtrain::cpu
