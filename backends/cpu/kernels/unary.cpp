// Functions of one number.
#include "backends/cpu/kernels/by_way_of.h"
#include "backends/cpu/kernels/elementwise.h"
#include "backends/cpu/kernels/math.h"

namespace ndtrain::cpu {
namespace {

template <auto F>
std::unique_ptr<Kernel> floats(const Node& node) {
  return for_float(node.in(0).dtype, node.op(), [&]<typename T>() { return map1<T, T>(node, F); });
}

template <auto F>
std::unique_ptr<Kernel> numbers(const Node& node) {
  return for_wide_number(node, numbers<F>, [&]<typename T>() { return map1<T, T>(node, F); });
}

std::unique_ptr<Kernel> is_nan(const Node& node) {
  return for_float(node.in(0).dtype, node.op(), [&]<typename T>() {
    return map1<T, uint8_t>(node, [](auto x) { return x != x; });
  });
}

std::unique_ptr<Kernel> logical_not(const Node& node) {
  if (node.in(0).dtype != NDT_BOOL) unsupported("takes bool, not ", name_of(node.in(0).dtype));
  return map1<uint8_t, uint8_t>(node, [](auto x) { return x == 0; });
}

// The lowest integer has no negative; it wraps to itself.
constexpr auto kNegative = [](auto x) {
  using W = decltype(x);
  if constexpr (std::is_integral_v<W>) {
    return static_cast<W>(uint64_t{} - static_cast<uint64_t>(x));
  } else {
    return -x;
  }
};

constexpr auto kAbs = [](auto x) {
  if constexpr (std::is_integral_v<decltype(x)>) {
    return x < 0 ? kNegative(x) : x;
  } else {
    return std::abs(x);
  }
};

const Registered registered{
    {"Abs", numbers<kAbs>},
    {"Neg", numbers<kNegative>},
    {"Sign",
     numbers<[](auto x) { return (x > 0) ? decltype(x)(1) : (x < 0 ? decltype(x)(-1) : x); }>},
    {"Relu", numbers<[](auto x) { return x < 0 ? decltype(x){} : x; }>},
    {"Floor", floats<[](auto x) { return std::floor(x); }>},
    {"Ceil", floats<[](auto x) { return std::ceil(x); }>},
    // Half to even, as the default rounding mode has it.
    {"Round", floats<[](auto x) { return std::nearbyint(x); }>},
    {"Exp", floats<[](auto x) { return math::exp(x); }>, Trait::kPlain},
    {"Log", floats<[](auto x) { return math::log(x); }>, Trait::kPlain},
    {"Sqrt", floats<[](auto x) { return std::sqrt(x); }>},
    {"Reciprocal", floats<[](auto x) { return 1 / x; }>},
    {"Erf", floats<[](auto x) { return math::erf(x); }>, Trait::kPlain},
    {"Softplus", floats<[](auto x) { return math::softplus(x); }>, Trait::kPlain},
    {"Softsign", floats<[](auto x) { return x / (1 + std::abs(x)); }>},
    {"Sin", floats<[](auto x) { return std::sin(x); }>},
    {"Cos", floats<[](auto x) { return std::cos(x); }>},
    {"Tan", floats<[](auto x) { return std::tan(x); }>},
    {"Sinh", floats<[](auto x) { return std::sinh(x); }>},
    {"Cosh", floats<[](auto x) { return std::cosh(x); }>},
    {"Asin", floats<[](auto x) { return std::asin(x); }>},
    {"Acos", floats<[](auto x) { return std::acos(x); }>},
    {"Atan", floats<[](auto x) { return std::atan(x); }>},
    {"Asinh", floats<[](auto x) { return std::asinh(x); }>},
    {"Acosh", floats<[](auto x) { return std::acosh(x); }>},
    {"Atanh", floats<[](auto x) { return std::atanh(x); }>},
    {"IsNaN", is_nan, Trait::kPlain},
    {"Not", logical_not},
};

}  // namespace
}  // namespace ndtrain::cpu
