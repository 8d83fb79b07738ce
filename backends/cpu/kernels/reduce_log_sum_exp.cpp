#include <cmath>
#include <limits>

#include "backends/cpu/kernels/by_way_of.h"
#include "backends/cpu/kernels/math.h"
#include "backends/cpu/kernels/reduction.h"

namespace ndtrain::cpu {
namespace {

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

const Registered registered{{"ReduceLogSumExp", log_sum_exp, Trait::kPlain}};

}  // namespace
}  // namespace ndtrain::cpu
