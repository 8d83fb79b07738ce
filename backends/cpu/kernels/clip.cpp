// Clip and its gradient. The limits are inputs of one element, read at run.
#include <limits>

#include "backends/cpu/kernels/elementwise.h"

namespace ndtrain::cpu {
namespace {

template <typename T>
struct Limits {
  wide_t<T> low, high;
};

template <typename T>
wide_t<T> lowest() {
  if constexpr (std::is_integral_v<T>) return std::numeric_limits<T>::min();
  return -std::numeric_limits<wide_t<T>>::infinity();
}

template <typename T>
wide_t<T> highest() {
  if constexpr (std::is_integral_v<T>) return std::numeric_limits<T>::max();
  return std::numeric_limits<wide_t<T>>::infinity();
}

// Where the node has limits: the numbers of the inputs that hold them, -1 if absent.
struct LimitInputs {
  int low, high;

  LimitInputs(const Node& node, int first)
      : low(node.has(first) ? first : -1), high(node.has(first + 1) ? first + 1 : -1) {
    for (const int i : {low, high}) {
      if (i >= 0 && count(node.in(i)) != 1) invalid("limit ", i, " is not one number");
      if (i >= 0 && node.in(i).dtype != node.in(0).dtype) invalid("a limit of another dtype");
    }
  }

  template <typename T>
  Limits<T> read(const void* const* in) const {
    return {low < 0 ? lowest<T>() : widen(*as<T>(in[low])),
            high < 0 ? highest<T>() : widen(*as<T>(in[high]))};
  }
};

template <typename T>
std::unique_ptr<Kernel> clip(const Node& node) {
  const int64_t n = count(node.out());
  const LimitInputs inputs(node, 1);
  auto k = kernel([n, inputs](const void* const* in, void* const* out, void*) {
    const Limits<T> limit = inputs.read<T>(in);
    const T* x = as<T>(in[0]);
    T* y = as<T>(out[0]);
    parallel_for(n, kElementGrain, [=](int64_t begin, int64_t end) {
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) {
        auto v = widen(x[i]);
        v = v < limit.low ? limit.low : v;
        y[i] = static_cast<T>(v > limit.high ? limit.high : v);
      }
    });
  });
  k->in_place_inputs = 1;
  return k;
}

template <typename T>
std::unique_ptr<Kernel> clip_grad(const Node& node) {
  const int64_t n = count(node.out());
  const LimitInputs inputs(node, 2);
  auto k = kernel([n, inputs](const void* const* in, void* const* out, void*) {
    const Limits<T> limit = inputs.read<T>(in);
    const T *dy = as<T>(in[0]), *x = as<T>(in[1]);
    T* dx = as<T>(out[0]);
    parallel_for(n, kElementGrain, [=](int64_t begin, int64_t end) {
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) {
        const auto v = widen(x[i]), d = widen(dy[i]);
        dx[i] = static_cast<T>((v >= limit.low) & (v <= limit.high) ? d : decltype(d){});
      }
    });
  });
  k->in_place_inputs = 0b11;
  return k;
}

std::unique_ptr<Kernel> clip_kernel(const Node& node) {
  return for_number(node.in(0).dtype, "Clip", [&]<typename T>() { return clip<T>(node); });
}

std::unique_ptr<Kernel> clip_grad_kernel(const Node& node) {
  return for_float(node.in(0).dtype, "ClipGrad", [&]<typename T>() { return clip_grad<T>(node); });
}

const Registered registered{
    {"Clip", clip_kernel},
    {"ClipGrad", clip_grad_kernel},
};

}  // namespace
}  // namespace ndtrain::cpu
