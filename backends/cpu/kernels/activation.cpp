// Activations with up to two numbers from the attributes, and their gradients dx = dy * f'(x), or
// of y where the op says so.
#include <numbers>

#include "backends/cpu/kernels/elementwise.h"
#include "backends/cpu/kernels/math.h"

namespace ndtrain::cpu {
namespace {

template <typename W>
struct Constants {
  W a, b;  // the op's float attributes
};

template <typename W>
Constants<W> constants(const Node& node) {
  const double b = node.has_attr("gamma") ? node.f("gamma") : node.f("beta", 0);
  return {static_cast<W>(node.f("alpha", 0)), static_cast<W>(b)};
}

template <auto F>
std::unique_ptr<Kernel> forward(const Node& node) {
  return for_float(node.in(0).dtype, node.op(), [&]<typename T>() {
    return map1<T, T>(node, [c = constants<wide_t<T>>(node)](auto x) { return F(x, c); });
  });
}

template <auto D>
std::unique_ptr<Kernel> backward(const Node& node) {
  return for_float(node.in(0).dtype, node.op(), [&]<typename T>() {
    const auto c = constants<wide_t<T>>(node);
    return map2<T>(node, [c](auto dy, auto x) { return dy * D(x, c); });
  });
}

template <typename W>
W clip01(W x) {
  x = x < 0 ? W(0) : x;
  return x > 1 ? W(1) : x;
}

// The inner polynomial of Gelu's tanh form, and its slope.
constexpr double kCubic = 0.044715;
template <typename W>
W inner(W x) {
  return W(std::numbers::sqrt2 * std::numbers::inv_sqrtpi) * (x + W(kCubic) * x * x * x);
}
template <typename W>
W inner_slope(W x) {
  return W(std::numbers::sqrt2 * std::numbers::inv_sqrtpi) * (1 + W(3 * kCubic) * x * x);
}
template <typename W>
W normal_cdf(W x) {
  return W(0.5) * (1 + math::erf(x * W(1 / std::numbers::sqrt2)));
}

constexpr auto kGelu = [](auto x, auto) { return x * normal_cdf(x); };
constexpr auto kGeluSlope = [](auto x, auto) {
  using W = decltype(x);
  const W density = math::exp(x * x * W(-0.5));
  return normal_cdf(x) + x * density * W(std::numbers::inv_sqrtpi / std::numbers::sqrt2);
};
constexpr auto kGeluTanh = [](auto x, auto) {
  using W = decltype(x);
  return W(0.5) * x * (1 + math::tanh(inner(x)));
};
constexpr auto kGeluTanhSlope = [](auto x, auto) {
  using W = decltype(x);
  const W t = math::tanh(inner(x));
  return W(0.5) * (1 + t) + W(0.5) * x * (1 - t * t) * inner_slope(x);
};

bool by_tanh(const Node& node) { return node.s("approximate") == "tanh"; }

std::unique_ptr<Kernel> gelu(const Node& node) {
  return by_tanh(node) ? forward<kGeluTanh>(node) : forward<kGelu>(node);
}

std::unique_ptr<Kernel> gelu_grad(const Node& node) {
  return by_tanh(node) ? backward<kGeluTanhSlope>(node) : backward<kGeluSlope>(node);
}

constexpr auto kMishSlope = [](auto x, auto) {
  const auto t = math::tanh(math::softplus(x));
  return t + x * math::sigmoid(x) * (1 - t * t);
};

template <typename W>
W indicator(bool holds, W value) {
  return holds ? value : W(0);
}

// dx = dy where y > 0; not dy * [y > 0], which would make NaN of an infinite dy.
std::unique_ptr<Kernel> relu_grad_kernel(const Node& node) {
  return for_number(node.in(0).dtype, node.op(), [&]<typename T>() {
    return map2<T>(node, [](auto dy, auto y) { return y > 0 ? dy : decltype(dy){}; });
  });
}

const Registered registered{
    {"Sigmoid", forward<[](auto x, auto) { return math::sigmoid(x); }>, Trait::kPlain},
    {"Tanh", forward<[](auto x, auto) { return math::tanh(x); }>, Trait::kPlain},
    {"HardSigmoid", forward<[](auto x, auto c) { return clip01(c.a * x + c.b); }>},
    {"HardSwish", forward<[](auto x, auto) { return x * clip01(x / 6 + decltype(x)(0.5)); }>},
    {"LeakyRelu", forward<[](auto x, auto c) { return x < 0 ? c.a * x : x; }>},
    {"Elu", forward<[](auto x, auto c) { return x < 0 ? c.a * math::expm1(x) : x; }>},
    {"Celu", forward<[](auto x, auto c) { return x < 0 ? c.a * math::expm1(x / c.a) : x; }>},
    {"Selu", forward<[](auto x, auto c) { return c.b * (x <= 0 ? c.a * math::expm1(x) : x); }>},
    {"ThresholdedRelu", forward<[](auto x, auto c) { return (x > c.a) ? x : decltype(x){}; }>},
    {"Gelu", gelu},
    {"Mish", forward<[](auto x, auto) { return x * math::tanh(math::softplus(x)); }>,
     Trait::kPlain},
    {"SigmoidGrad", backward<[](auto y, auto) { return y * (1 - y); }>},
    {"TanhGrad", backward<[](auto y, auto) { return 1 - y * y; }>},
    {"HardSigmoidGrad", backward<[](auto y, auto c) { return indicator((y > 0) && y < 1, c.a); }>},
    {"HardSwishGrad", backward<[](auto x, auto) {
       using W = decltype(x);
       return x <= -3 ? W(0) : ((x >= 3) ? W(1) : x / 3 + W(0.5));
     }>},
    {"LeakyReluGrad", backward<[](auto x, auto c) { return x < 0 ? c.a : decltype(x)(1); }>},
    {"EluGrad",
     backward<[](auto x, auto c) { return x < 0 ? c.a * math::exp(x) : decltype(x)(1); }>},
    {"CeluGrad",
     backward<[](auto x, auto c) { return x < 0 ? math::exp(x / c.a) : decltype(x)(1); }>},
    {"SeluGrad",
     backward<[](auto x, auto c) { return c.b * (x <= 0 ? c.a * math::exp(x) : decltype(x)(1)); }>},
    {"ThresholdedReluGrad",
     backward<[](auto x, auto c) { return indicator((x > c.a), decltype(x)(1)); }>},
    {"GeluGrad", gelu_grad, Trait::kPlain},
    {"MishGrad", backward<kMishSlope>, Trait::kPlain},
    {"ReluGrad", relu_grad_kernel},
};

}  // namespace
}  // namespace ndtrain::cpu
